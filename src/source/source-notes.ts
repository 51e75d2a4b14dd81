// What a source remembers from run to run, by keys of its own: facts that tell it later what has changed meanwhile. A note that
// was made last may be lost with the process: what must not be is waited for.

/** Where the notes are kept as one text. A save is durable when it returns. */
export interface NoteStore {
  load(): Promise<string | null>;
  save(record: string): Promise<void>;
}

export class SourceNotes {
  #saving: Promise<void> | null = null;
  #isDirty = false;
  #failure: { readonly error: unknown } | null = null;

  private constructor(
    private readonly store: NoteStore,
    private readonly notes: Map<string, string>,
  ) {}

  static async load(store: NoteStore): Promise<SourceNotes> {
    const record = await store.load();
    return new SourceNotes(store, new Map(record === null ? [] : Object.entries(JSON.parse(record))));
  }

  get(key: string): string | undefined {
    return this.notes.get(key);
  }

  keys(): readonly string[] {
    return [...this.notes.keys()];
  }

  /** Notes `value`, or forgets what was noted. Saved soon, with what else is noted in the same turn. */
  set(key: string, value: string | null): void {
    if ((this.notes.get(key) ?? null) === value) return;
    if (value === null) this.notes.delete(key);
    else this.notes.set(key, value);
    this.#isDirty = true;
    this.#saving ??= this.#save();
  }

  /** Resolves when all that was noted is saved, or could not be: then it is noted again by the next run. */
  async saved(): Promise<void> {
    await this.#saving;
  }

  /** Resolves when all that was noted is saved. Throws what has kept it from being saved. */
  async durable(): Promise<void> {
    await this.#saving;
    if (this.#failure) throw this.#failure.error;
  }

  async #save(): Promise<void> {
    await Promise.resolve();
    while (this.#isDirty) {
      this.#isDirty = false;
      this.#failure = await this.store.save(JSON.stringify(Object.fromEntries(this.notes))).then(
        () => null,
        (error: unknown) => ({ error }),
      );
    }
    this.#saving = null;
  }
}
