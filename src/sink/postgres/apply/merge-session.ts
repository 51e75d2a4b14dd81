// The session in which a batch's rows are merged into a table, and how they are to be merged.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { IncompleteRows } from "../bookkeeping/incomplete-rows.ts";
import type { TouchedKeys } from "../copy/touched-keys.ts";
import type { WrittenBytes } from "./written-bytes.ts";

export interface StagingState {
  /** The table has rows of this transaction. */
  dirty: boolean;
  /** The table was made before the begin or the savepoint that a rollback goes back to. */
  outlivesRollback: boolean;
}

export interface MergeSession {
  readonly client: Client;
  readonly form: TupleForm;
  /** Staging tables that exist in this session, by name. */
  readonly staging: Map<string, StagingState>;
  /** Tables that get bytes by COPY, without a staging table. */
  readonly written: WrittenBytes;
  /**
   * Replace rows of the same key, instead of trusting that inserts are new: after a refusal, while a copy may be ahead of the stream, and where
   * equal rows are one row.
   */
  readonly upserts: boolean;
  /** The stream has not passed the copy's last point, or rows are incomplete: a row may be missing, present or newer than the change. */
  readonly repeats: boolean;
  /** Takes rows that turn out to be missing while `repeats` is set; null: such rows are gone at the source as well. */
  readonly incomplete: IncompleteRows | null;
  /** Tables of which each touched key is recorded. */
  readonly touched: TouchedKeys;
  /** Apply each change by itself, in order. Set after a foreign key has refused the batch, or a unique index for which an upsert was not enough. */
  readonly inOrder: boolean;
  readonly warn: (reason: string) => void;
}
