// Tells of many ids with few statements: what comes while one is under way goes together in the next.

export class ToldTogether {
  #next: { readonly ids: Set<string>; readonly told: Promise<void> } | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(private readonly tell: (ids: readonly string[]) => Promise<void>) {}

  /** Resolves when it is told of them. Throws what `tell` throws. */
  add(ids: readonly string[]): Promise<void> {
    this.#next ??= this.#begin();
    for (const id of ids) this.#next.ids.add(id);
    return this.#next.told;
  }

  #begin(): { readonly ids: Set<string>; readonly told: Promise<void> } {
    const ids = new Set<string>();
    const told = this.#last.then(() => {
      this.#next = null;
      return this.tell([...ids]);
    });
    this.#last = told.catch(() => undefined);
    return { ids, told };
  }
}
