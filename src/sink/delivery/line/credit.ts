// How many bytes of batches may be on their way over the line: what goes above is waited for.

/** Copies that go side by side do not wait for one another's rows to be delivered: none takes more than its share. */
const shares = 4;

export class Credit {
  #spent = 0;
  /** By copy. */
  readonly #spentBy = new Map<number, number>();
  #waiters: { readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  #ended: { readonly error: unknown } | null = null;

  /** One batch may go above it, or above its copy's share; and of each copy one that is within its share. */
  constructor(private readonly most: number) {}

  /** Waits until `bytes` more may be on their way, of a copy or of none, and counts them. Throws what `end` was told. */
  async spend(bytes: number, copy: number | null): Promise<void> {
    while (!this.#has(bytes, copy)) await this.#given();
    this.#throwIfEnded();
    this.#add(bytes, copy);
  }

  /** Waits until what is on its way is no more than may be: one that goes above it is alone in memory. */
  async settle(): Promise<void> {
    while (this.#spent > this.most) await this.#given();
    this.#throwIfEnded();
  }

  give(bytes: number, copy: number | null): void {
    this.#add(-bytes, copy);
    for (const waiter of this.#waiters.splice(0)) waiter.resolve();
  }

  /** Nobody gives any more. */
  end(error: unknown): void {
    this.#ended ??= { error };
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
  }

  #has(bytes: number, copy: number | null): boolean {
    const isInAll = this.#spent === 0 || this.#spent + bytes <= this.most;
    if (copy === null) return isInAll;
    const own = this.#spentBy.get(copy) ?? 0;
    const isInShare = own + bytes <= this.most / shares;
    return own === 0 ? isInAll || isInShare : isInAll && isInShare;
  }

  #add(bytes: number, copy: number | null): void {
    this.#spent += bytes;
    if (copy === null) return;
    const spent = (this.#spentBy.get(copy) ?? 0) + bytes;
    if (spent > 0) this.#spentBy.set(copy, spent);
    else this.#spentBy.delete(copy);
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
