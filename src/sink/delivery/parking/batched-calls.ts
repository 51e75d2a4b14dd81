// Few calls for many items: those that come during a call go together with the next one, in the order in which they came.

interface Batch<Item, Result> {
  readonly items: Item[];
  bytes: number;
  readonly sent: Promise<Result>;
}

export interface BatchedCallsOptions<Item, Result> {
  readonly send: (items: readonly Item[]) => Promise<Result>;
  readonly bytesOf: (item: Item) => number;
  /** What comes once a batch has as many goes with a later call. */
  readonly mostBytes: number;
}

export class BatchedCalls<Item, Result = void> {
  #open: Batch<Item, Result> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(private readonly options: BatchedCallsOptions<Item, Result>) {}

  /** Resolves with the answer to all that they went with. Throws what `send` throws. */
  add(items: readonly Item[]): Promise<Result> {
    if (this.#open && this.#open.bytes >= this.options.mostBytes) this.#open = null;
    this.#open ??= this.#begin();
    const batch = this.#open;
    for (const item of items) {
      batch.items.push(item);
      batch.bytes += this.options.bytesOf(item);
    }
    return batch.sent;
  }

  #begin(): Batch<Item, Result> {
    const items: Item[] = [];
    const sent = this.#last.then(() => {
      if (this.#open === batch) this.#open = null;
      return this.options.send(items);
    });
    this.#last = sent.catch(() => undefined);
    const batch: Batch<Item, Result> = { items, bytes: 0, sent };
    return batch;
  }
}
