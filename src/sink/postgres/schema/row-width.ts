// Decides whether a row of a table may be too wide for one more column. Pure.
// https://www.postgresql.org/docs/current/storage-page-layout.html

export interface ColumnWidth {
  /** `pg_type.typlen`: bytes, or negative for values of any length. */
  readonly length: number;
  /** `pg_type.typalign`. */
  readonly alignment: "c" | "s" | "i" | "d";
  /** `pg_type.typstorage`: `p` is never moved out of the row. */
  readonly storage: string;
}

/** MaxHeapAttributeNumber, and what a page of 8 kB leaves for one row. */
const maxColumns = 1600;
const maxRowBytes = 8160;
/** The size of a TOAST pointer: what a value that is moved out leaves in the row. */
const toastPointerBytes = 18;
const headerBytes = 23;
const alignmentBytes = { c: 1, s: 2, i: 4, d: 8 } as const;

/** Whether each row fits a page with an additional int4 column. */
export function hasRoomForGroup(columns: readonly ColumnWidth[]): boolean {
  if (columns.length >= maxColumns) return false;
  let end = align(headerBytes + Math.ceil((columns.length + 1) / 8), 8) + 4;
  for (const { length, alignment, storage } of columns) {
    if (length < 0 && storage === "p") return false;
    end = length < 0 ? end + toastPointerBytes : align(end, alignmentBytes[alignment]) + length;
  }
  return align(end, 8) <= maxRowBytes;
}

function align(at: number, to: number): number {
  return Math.ceil(at / to) * to;
}
