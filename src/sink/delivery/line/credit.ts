// Bounds the bytes of batches that are on their way over the line.

/** No chunk takes more than its share, so that chunks side by side do not wait for one another's rows to be delivered. */
const shares = 4;

export class Credit {
  #spent = 0;
  /** By chunk. */
  readonly #spentBy = new Map<number, number>();
  #waiters: { readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  #ended: { readonly error: unknown } | null = null;

  /**
   * At most `most` bytes are on their way. A larger batch goes when nothing else is on its way, or nothing else of its chunk where it exceeds the
   * chunk's share. A chunk that has nothing on its way may always send one batch within its share.
   * @param mostWithStream what may be on its way where the stream adds to it
   */
  constructor(
    private readonly most: number,
    private readonly mostWithStream = most,
  ) {}

  /** Waits until `bytes` more may be on their way, of a chunk or of the stream, and counts them. Throws what `end` was given. */
  async spend(bytes: number, chunk: number | null): Promise<void> {
    while (!this.#has(bytes, chunk)) await this.#given();
    this.#throwIfEnded();
    this.#add(bytes, chunk);
  }

  /** Waits until the bound is kept again: a batch that exceeds it is alone in memory. */
  async settle(): Promise<void> {
    while (this.#spent > this.most) await this.#given();
    this.#throwIfEnded();
  }

  give(bytes: number, chunk: number | null): void {
    this.#add(-bytes, chunk);
    for (const waiter of this.#waiters.splice(0)) waiter.resolve();
  }

  /** Nothing is given back any more. */
  end(error: unknown): void {
    this.#ended ??= { error };
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
  }

  #has(bytes: number, chunk: number | null): boolean {
    const most = chunk === null ? this.mostWithStream : this.most;
    const isInAll = this.#spent === 0 || this.#spent + bytes <= most;
    if (chunk === null) return isInAll;
    const own = this.#spentBy.get(chunk) ?? 0;
    const isInShare = own + bytes <= this.most / shares;
    return own === 0 ? isInAll || isInShare : isInAll && isInShare;
  }

  #add(bytes: number, chunk: number | null): void {
    this.#spent += bytes;
    if (chunk === null) return;
    const spent = (this.#spentBy.get(chunk) ?? 0) + bytes;
    if (spent > 0) this.#spentBy.set(chunk, spent);
    else this.#spentBy.delete(chunk);
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
