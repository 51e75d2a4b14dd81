// What merging a batch's rows into a table needs of the session that it runs in.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { OwedRowNotes } from "../copy/owed-rows.ts";
import type { TouchedKeys } from "../copy/touched-keys.ts";

export interface StagingState {
  /** It holds rows of this transaction. */
  dirty: boolean;
  /** It was made before what a rollback would undo now. */
  outlivesRollback: boolean;
}

/** What a merge needs of the session that it runs in. */
export interface MergeSession {
  readonly client: Client;
  readonly form: TupleForm;
  /** Staging tables that exist in this session, by name. */
  readonly staging: Map<string, StagingState>;
  /** Replace whatever has the same key, instead of trusting that inserts are new: after a unique violation. */
  readonly careful: boolean;
  /** Changes that the table's merged copy holds already are applied once more: rows may be in any state. */
  readonly repeats: boolean;
  /** Notes rows that are missing while `repeats` holds; null: none is missing that the source still has. */
  readonly owed: OwedRowNotes | null;
  /** Tables whose keys are to be noted with their changes. */
  readonly touched: TouchedKeys;
  /** Each change by itself, in its order: where foreign keys at the sink refuse what the batch comes to, written table by table. */
  readonly inOrder: boolean;
  readonly warn: (reason: string) => void;
}
