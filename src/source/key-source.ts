// The contract of a source whose rows can be chosen by keys that people give.

import type { RowKey } from "../change/copy-part.ts";
import type { TableShape } from "../change/relation.ts";
import type { SnapshotPoint } from "./table-source.ts";

export interface KeySource {
  /**
   * The keys as the table's rows have them. `texts`: of each key's columns, in the order of the relation's key. Throws `invalid_request`,
   * which names the first value that does not fit its column's type.
   */
  read(table: TableShape, texts: readonly RowKey[]): Promise<readonly RowKey[]>;

  /** Which of these keys no row has, as of `point`, by their place in the list. Throws as `readTable` does. */
  missing(table: TableShape, point: SnapshotPoint, keys: readonly RowKey[]): Promise<ReadonlySet<number>>;
}
