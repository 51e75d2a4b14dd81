// Which deliveries are being tried again, and what is told of it. When a receiver is away every request fails, and one report is enough.

export class RetryReport<Delivery> {
  readonly #attempts = new Map<Delivery, number>();
  /** The number that was reported last. */
  #reported = 0;

  constructor(
    /** The largest number of failed attempts now, and when the next follows; null: none is being retried any more. */
    private readonly retrying: (attempt: number | null, reason: string, inMs?: number) => void,
  ) {}

  failed(delivery: Delivery, attempts: number, reason: string, inMs: number): void {
    this.#attempts.set(delivery, attempts);
    const most = this.#most;
    if (most <= this.#reported) return;
    this.#reported = most;
    this.retrying(most, reason, inMs);
  }

  /** It is not tried again any more. */
  ended(delivery: Delivery): void {
    if (!this.#attempts.delete(delivery)) return;
    this.#reported = Math.min(this.#reported, this.#most);
    if (this.#attempts.size === 0) this.retrying(null, "");
  }

  get #most(): number {
    return Math.max(0, ...this.#attempts.values());
  }
}
