// What a source keeps from run to run, as texts by keys of its own: facts that tell it later what has changed meanwhile. A value
// that was set last may be lost when the process dies; who needs it kept waits for `durable`.

/** Keeps the state as one text. A save is durable when it returns. */
export interface SourceStateStore {
  load(): Promise<string | null>;
  save(record: string): Promise<void>;
}

/**
 * Set before anything is made at the source. Without it the connector has made nothing there, and can be deleted without asking the
 * source: a slot of its name is another service's.
 */
const objectsKey = "objects";
/** The record of a source that is to begin anew, and may still have what it made before. */
export const recordOfObjects = JSON.stringify({ [objectsKey]: "left" });

/** Whether `record`, as a store has it, tells that something may have been made at the source. */
export function tellsOfObjects(record: string): boolean {
  return objectsKey in JSON.parse(record);
}

export class SourceState {
  #saving: Promise<void> | null = null;
  #isDirty = false;
  #failure: { readonly error: unknown } | null = null;

  private constructor(
    private readonly store: SourceStateStore,
    private readonly values: Map<string, string>,
    private readonly isFenced: boolean,
  ) {}

  /** `isFenced`: another process may take the connector over, and a save then fails with `lease_lost`. */
  static async load(store: SourceStateStore, isFenced = false): Promise<SourceState> {
    const record = await store.load();
    const values = new Map<string, string>(record === null ? [] : Object.entries(JSON.parse(record)));
    return new SourceState(store, values, isFenced);
  }

  get(key: string): string | undefined {
    return this.values.get(key);
  }

  keys(): readonly string[] {
    return [...this.values.keys()];
  }

  /** Null removes the key. Everything that is set in one tick of the event loop is saved at once. */
  set(key: string, value: string | null): void {
    if ((this.values.get(key) ?? null) === value) return;
    if (value === null) this.values.delete(key);
    else this.values.set(key, value);
    this.#saveLater();
  }

  #saveLater(): void {
    this.#isDirty = true;
    this.#saving ??= this.#save();
  }

  /** Something may have been made at the source. */
  get hasObjects(): boolean {
    return this.values.has(objectsKey);
  }

  /**
   * To be awaited before something is made or dropped at the source that outlives the connection. Throws `lease_lost`: a fenced
   * state is saved each time, as only the save tells.
   */
  async willMakeObjects(): Promise<void> {
    this.set(objectsKey, "made");
    await this.confirmTerm();
  }

  /** Resolves when everything is saved. Throws `lease_lost` where another replica has taken the connector over before this call. */
  async confirmTerm(): Promise<void> {
    if (this.isFenced) this.#saveLater();
    await this.durable();
  }

  /** Resolves when no save is under way. A save that failed is not reported: the next run sets the same values again. */
  async saved(): Promise<void> {
    await this.#saving;
  }

  /** Resolves when everything that was set is saved. Throws why it could not be. */
  async durable(): Promise<void> {
    await this.#saving;
    if (this.#failure) throw this.#failure.error;
  }

  async #save(): Promise<void> {
    await Promise.resolve();
    while (this.#isDirty) {
      this.#isDirty = false;
      this.#failure = await this.store.save(JSON.stringify(Object.fromEntries(this.values))).then(
        () => null,
        (error: unknown) => ({ error }),
      );
    }
    this.#saving = null;
  }
}
