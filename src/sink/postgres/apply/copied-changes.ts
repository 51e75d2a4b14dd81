// Decides which changes of a batch are in the copies of their tables already: they are not applied.

import { type ChangeBatch, commitLsnOf } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import type { CopyState, PreparedTable } from "./prepared-table.ts";

export interface KnownCopies {
  /** How the changes of a relation's table stand to its copy. */
  copyOf(relation: Relation): CopyState;
  /** Whether the target follows a later shape already. A later copy has these rows then, so that their changes are left out. */
  isSuperseded(relation: Relation, at: Lsn): boolean;
}

export class CopiedChanges {
  /** The batch's first commit: no change of it is older. Cached, as it is needed for each row. */
  readonly #since: Lsn;

  constructor(
    private readonly batch: ChangeBatch,
    private readonly known: KnownCopies,
    private readonly warn: (reason: string) => void,
  ) {
    this.#since = lsn(batch.transactions.commitLsn[0] ?? 0n);
  }

  commitLsn(i: number): Lsn {
    return commitLsnOf(this.batch, i);
  }

  /** Whether change `i` is in its table's copy already. `table`: as it was prepared, if it was. Called for each row. */
  has(relation: Relation, table: PreparedTable | undefined, i: number): boolean {
    const copy = table?.copy ?? this.known.copyOf(relation);
    if (copy.kind === "none") return !table && this.#isWithoutCopy(relation, i);
    if (this.#since >= copy.point || this.commitLsn(i) >= copy.point) return false;
    if (copy.kind === "exact" || (copy.first !== null && this.commitLsn(i) < copy.first)) return true;
    return !table && this.#isSuperseded(relation, i);
  }

  /** The copy that brought the later shape does not count any more, and the run makes no other. */
  #isWithoutCopy(relation: Relation, i: number): boolean {
    if (!this.known.isSuperseded(relation, this.commitLsn(i))) return false;
    this.warn(
      `Changes of ${qualifiedName(relation)} from before it was altered are left out, as its rows at the sink were copied later, and the copy ` +
        "does not count any more: create a Snapshot task with truncate for the table, unless it is gone or left out by the catalog.",
    );
    return true;
  }

  /** The later copy has the changed rows, but it was merged: it did not delete rows that are gone. */
  #isSuperseded(relation: Relation, i: number): boolean {
    if (!this.known.isSuperseded(relation, this.commitLsn(i))) return false;
    if (this.batch.oldEnd[i]! > this.batch.oldStart[i]!) {
      this.warn(
        `Rows of ${qualifiedName(relation)} that were deleted, or got another key, before the table was altered may be left at the ` +
          "sink, where its table has rows of others too: compare them, and delete there those that no table of the source has.",
      );
    }
    return true;
  }
}
