// Reads the rows of a COPY in binary form, without an object for each.
// https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS

/** The row that is being read. It is valid only while its reader looks at it. */
export class BinaryRow {
  view: DataView<ArrayBufferLike> = new DataView(new ArrayBuffer(0));
  bytes: Uint8Array = new Uint8Array();
  /** Where each field begins, and its length; -1: null. */
  readonly starts: number[] = [];
  readonly lengths: number[] = [];
  fields = 0;

  int32(field: number, offset = 0): number {
    return this.view.getInt32(this.starts[field]! + offset);
  }

  /** An int8 that is small enough to be exact. */
  integer(field: number): number {
    return this.int32(field) * 2 ** 32 + this.view.getUint32(this.starts[field]! + 4);
  }

  /** Null for null. */
  text(field: number): string | null {
    const length = this.lengths[field]!;
    if (length < 0) return null;
    const start = this.starts[field]!;
    return decoder.decode(this.bytes.subarray(start, start + length));
  }
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
/** The signature, the flags, and the length of an extension that no server writes. */
const headerBytes = 19;
const none = new Uint8Array();

/** Calls `onRow` for each row. Chunks may be of any size. */
export async function readBinaryRows(
  chunks: AsyncIterable<Uint8Array>,
  onRow: (row: BinaryRow) => void,
): Promise<void> {
  const row = new BinaryRow();
  const joined = new JoinedChunks();
  let isBegun = false;
  for await (const chunk of chunks) {
    const bytes = joined.with(chunk);
    let at = 0;
    if (!isBegun && bytes.length >= headerBytes) {
      isBegun = true;
      at = headerBytes;
    }
    if (isBegun) at = readRows(bytes, at, row, onRow);
    // The chunk's memory is used again.
    joined.keep(bytes.subarray(at));
  }
}

/** Puts what is left of a chunk before the next one. In memory that is used again: that of each chunk would be much garbage. */
class JoinedChunks {
  #memory = none;
  #left = 0;

  with(chunk: Uint8Array): Uint8Array {
    if (this.#left === 0) return chunk;
    const length = this.#left + chunk.length;
    this.#reserve(length);
    this.#memory.set(chunk, this.#left);
    return this.#memory.subarray(0, length);
  }

  /** `rest` may be in the memory itself. */
  keep(rest: Uint8Array): void {
    this.#reserve(rest.length);
    this.#memory.set(rest);
    this.#left = rest.length;
  }

  #reserve(length: number): void {
    if (length <= this.#memory.length) return;
    const before = this.#memory.subarray(0, this.#left);
    this.#memory = new Uint8Array(length * 2);
    this.#memory.set(before);
  }
}

/** Returns where the first incomplete row begins, or the end. */
function readRows(bytes: Uint8Array, from: number, row: BinaryRow, onRow: (row: BinaryRow) => void): number {
  row.bytes = bytes;
  row.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = from;
  while (at + 2 <= bytes.length) {
    const fields = row.view.getInt16(at);
    if (fields < 0) return bytes.length;
    const end = locate(row, at + 2, fields);
    if (end < 0) return at;
    row.fields = fields;
    onRow(row);
    at = end;
  }
  return at;
}

/** Finds the fields of the row. Returns its end; -1: it is not all there. */
function locate({ view, starts, lengths }: BinaryRow, from: number, fields: number): number {
  let at = from;
  for (let field = 0; field < fields; field++) {
    if (at + 4 > view.byteLength) return -1;
    const length = view.getInt32(at);
    starts[field] = at + 4;
    lengths[field] = length;
    at += 4 + Math.max(0, length);
    if (at > view.byteLength) return -1;
  }
  return at;
}
