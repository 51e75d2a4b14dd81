// The contract of a sink whose rows can be compared with the source's.

import type { Checkpoint } from "../change/checkpoint.ts";
import type { RowKey } from "../change/copy-part.ts";
import type { TableSize } from "../change/page-range.ts";
import type { TableShape } from "../change/relation.ts";
import type {
  ComparedColumn,
  DigestScan,
  HashingServer,
  RowComparison,
} from "../comparison/row-comparison.ts";

export interface VerifySink {
  /**
   * Moves the checkpoint to where another slot begins, though the sink has missed the changes before it. Durable at once: the checkpoint, and which
   * tables are *unproved* from here on. Their rows may be older or newer than any change of the stream, which are upserted. Copies whose rows
   * cannot be compared one by one are void. Called between `Sink.open` and `prepare`.
   */
  resume(checkpoint: Checkpoint, tables: readonly TableShape[]): Promise<void>;

  /**
   * Call it between two batches: opens the table's rows as they are now, which batches do not change any more. Throws why they cannot be compared.
   * `stop` ends everything with its reason.
   */
  open(table: TableShape, stop: AbortSignal): Promise<SinkRows>;

  /**
   * Call it between two batches: the table's rows were compared with the source's and were all equal, and the changes since then keep them so.
   * The table is no longer unproved. Durable on return. `haveRowsMoved`: what `SinkRows` has said. Returns true if `prepare` is to be called
   * before the next batch: rows may be incomplete, or the table's history can be compared with it now.
   */
  proved(table: TableShape, haveRowsMoved: boolean): Promise<boolean>;
}

/** A table's rows at one place of the stream. Disposing twice does no harm. */
export interface SinkRows extends AsyncDisposable {
  readonly columns: readonly ComparedColumn[];
  readonly server: HashingServer;
  /** Null: the rows can only be read as a whole. */
  readonly size: TableSize | null;
  /** Why differing rows cannot be replaced one by one; null: they can. */
  readonly repairBlocker: string | null;
  /** All rows that differ must be replaced at once: something other than the key is unique too, and one row may have the value of another. */
  readonly areRepairedTogether: boolean;

  /** Rows in the form of COPY BINARY, in chunks that are the reader's until it asks for the next one. Several at once are each a session. */
  read(comparison: RowComparison, scan: DigestScan): AsyncIterable<Uint8Array>;

  /**
   * Call it between two batches, even after disposal: whether the stream has given a row another key since, without all of its values. If
   * that row was out of date, the row under the new key is out of date now.
   */
  haveRowsMoved(): boolean;

  /** SQL that gives the sink the source's row, or removes what the source does not have, ready to paste; with its values. */
  statement(change: RowChange): string;
}

/** Texts are those of the compared columns, in their order; null for null. */
export type RowChange =
  | { readonly kind: "Missing"; readonly texts: readonly (string | null)[] }
  | { readonly kind: "Extra"; readonly key: RowKey }
  /** All rows whose key is NULL in one of its columns. */
  | { readonly kind: "WithoutKey" }
  | {
      readonly kind: "Changed";
      readonly key: RowKey;
      readonly texts: readonly (string | null)[];
      /** Numbers of the columns that differ. */
      readonly columns: readonly number[];
    };
