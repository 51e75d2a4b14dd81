// The contract of a source whose rows can be compared with a sink's.

import type { RowKey } from "../change/copy-part.ts";
import type { TableSize } from "../change/page-range.ts";
import type { TableShape } from "../change/relation.ts";
import type { DigestScan, HashingServer, RowComparison } from "../comparison/row-comparison.ts";
import type { SnapshotPoint } from "./table-source.ts";

export interface VerifySource {
  hashing(): Promise<HashingServer>;

  /** Null: the table can only be read as a whole. `signal` breaks the session, and throws its reason. */
  size(table: TableShape, signal: AbortSignal): Promise<TableSize | null>;

  /** Of these keys, those that are values of the source's types: no row of the source has another one. */
  keysThatFit(table: TableShape, keys: readonly RowKey[]): Promise<readonly RowKey[]>;

  /**
   * Reads digests of a table's rows as of `point`: rows in the form of COPY BINARY, in chunks that are the reader's until it asks for the next one.
   * Throws as `readTable` does. `signal` breaks the session, even before the first chunk: the server may work on that for hours.
   */
  read(
    table: TableShape,
    point: SnapshotPoint,
    comparison: RowComparison,
    scan: DigestScan,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array>;
}
