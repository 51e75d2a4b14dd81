// How many bytes of batches may be on their way over the line: what goes above is waited for.

export class Credit {
  #spent = 0;
  #waiters: { readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  #ended: { readonly error: unknown } | null = null;

  /** One batch may go above it. */
  constructor(private readonly most: number) {}

  /** Waits until `bytes` more may be on their way, and counts them. Throws what `end` was told. */
  async spend(bytes: number): Promise<void> {
    while (this.#spent > 0 && this.#spent + bytes > this.most) await this.#given();
    this.#throwIfEnded();
    this.#spent += bytes;
  }

  /** Waits until what is on its way is no more than may be: one that goes above it is alone in memory. */
  async settle(): Promise<void> {
    while (this.#spent > this.most) await this.#given();
    this.#throwIfEnded();
  }

  give(bytes: number): void {
    this.#spent -= bytes;
    for (const waiter of this.#waiters.splice(0)) waiter.resolve();
  }

  /** Nobody gives any more. */
  end(error: unknown): void {
    this.#ended ??= { error };
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
  }

  #given(): Promise<void> {
    this.#throwIfEnded();
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
    });
  }

  #throwIfEnded(): void {
    if (this.#ended) throw this.#ended.error;
  }
}
