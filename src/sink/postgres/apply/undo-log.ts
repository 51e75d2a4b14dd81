// Takes back what is remembered of a transaction as far as the database takes the transaction back: to its savepoint, or all of it.
// It knows how each thing is undone, not what it is.

export class UndoLog {
  #steps: (() => void)[] = [];
  /** How many of them are from before the savepoint. */
  #savepoint = 0;

  /** Something was changed. `undo` makes it what it was, once everything that was changed later is undone. */
  changed(undo: () => void): void {
    this.#steps.push(undo);
  }

  /** The transaction has a savepoint here, and no longer an earlier one. */
  savepoint(): void {
    this.#savepoint = this.#steps.length;
  }

  /** The transaction, or what followed its savepoint, is undone. */
  rolledBack(to: RolledBackTo): void {
    const kept = to === "savepoint" ? this.#savepoint : 0;
    while (this.#steps.length > kept) this.#steps.pop()?.();
    this.#savepoint = kept;
  }

  committed(): void {
    this.#steps = [];
    this.#savepoint = 0;
  }
}

export type RolledBackTo = "begin" | "savepoint";
