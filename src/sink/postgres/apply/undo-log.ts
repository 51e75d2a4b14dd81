// Undoes changes of in-memory state when the database rolls a transaction back, to its savepoint or as a whole.

export class UndoLog {
  #steps: (() => void)[] = [];
  /** How many steps are from before the savepoint. */
  #savepoint = 0;

  /** Something was changed. `undo` restores it; later changes are undone before. */
  changed(undo: () => void): void {
    this.#steps.push(undo);
  }

  /** The transaction has a savepoint here, which replaces an earlier one. */
  savepoint(): void {
    this.#savepoint = this.#steps.length;
  }

  /** The transaction was rolled back to `to`. */
  rolledBack(to: RolledBackTo): void {
    const remaining = to === "savepoint" ? this.#savepoint : 0;
    while (this.#steps.length > remaining) this.#steps.pop()?.();
    this.#savepoint = remaining;
  }

  committed(): void {
    this.#steps = [];
    this.#savepoint = 0;
  }
}

export type RolledBackTo = "begin" | "savepoint";
