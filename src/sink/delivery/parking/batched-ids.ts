// Sends ids in batches: ids that come during a call go together with the next one.

export class BatchedIds {
  #next: { readonly ids: Set<string>; readonly sent: Promise<void> } | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(private readonly send: (ids: readonly string[]) => Promise<void>) {}

  /** Resolves when they are sent. Throws what `send` throws. */
  add(ids: readonly string[]): Promise<void> {
    this.#next ??= this.#begin();
    for (const id of ids) this.#next.ids.add(id);
    return this.#next.sent;
  }

  #begin(): { readonly ids: Set<string>; readonly sent: Promise<void> } {
    const ids = new Set<string>();
    const sent = this.#last.then(() => {
      this.#next = null;
      return this.send([...ids]);
    });
    this.#last = sent.catch(() => undefined);
    return { ids, sent };
  }
}
