// Few calls for many items: those that come during a call go together with the next one, in the order in which they came.

interface Batch<Item> {
  readonly items: Item[];
  bytes: number;
  readonly sent: Promise<void>;
}

export interface BatchedCallsOptions<Item> {
  readonly send: (items: readonly Item[]) => Promise<void>;
  readonly bytesOf: (item: Item) => number;
  /** What comes once a batch has as many goes with a later call. */
  readonly mostBytes: number;
}

export class BatchedCalls<Item> {
  #open: Batch<Item> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(private readonly options: BatchedCallsOptions<Item>) {}

  /** Resolves when they are sent. Throws what `send` throws. */
  add(items: readonly Item[]): Promise<void> {
    if (this.#open && this.#open.bytes >= this.options.mostBytes) this.#open = null;
    this.#open ??= this.#begin();
    const batch = this.#open;
    for (const item of items) {
      batch.items.push(item);
      batch.bytes += this.options.bytesOf(item);
    }
    return batch.sent;
  }

  #begin(): Batch<Item> {
    const items: Item[] = [];
    const sent = this.#last.then(() => {
      if (this.#open === batch) this.#open = null;
      return this.options.send(items);
    });
    this.#last = sent.catch(() => undefined);
    const batch: Batch<Item> = { items, bytes: 0, sent };
    return batch;
  }
}
