// How a piece of receipts is laid out: a list of numbers for each thing that is kept, those of all receipts together, which compress well.
// Times, LSNs and offsets are differences. Written and read on machines of little-endian order alone.

export const headerBytes = 24;
export const keyBytes = 16;

/** What a receipt has: a key of its own, and rows whose places are kept. */
export const hasKey = 1;
export const hasOrdinals = 2;

export interface Counts {
  readonly receipts: number;
  readonly runs: number;
  readonly rows: number;
  readonly ordinals: number;
  readonly keys: number;
  /** Of the tables' names as JSON. */
  readonly names: number;
}

/** The lists of a piece, all in one buffer: the larger their numbers are, the earlier they come. */
export function layout(buffer: ArrayBuffer, { receipts, runs, rows, ordinals, keys, names }: Counts) {
  let at = headerBytes;
  const place = (count: number, bytes: number) => {
    const start = at;
    at += count * bytes;
    return start;
  };
  const floats = (count: number) => new Float64Array(buffer, place(count, 8), count);
  const longs = (count: number) => new BigUint64Array(buffer, place(count, 8), count);
  const words = (count: number) => new Uint32Array(buffer, place(count, 4), count);
  const shorts = (count: number) => new Uint16Array(buffer, place(count, 2), count);
  const bytes = (count: number) => new Uint8Array(buffer, place(count, 1), count);
  return {
    firstAt: floats(receipts),
    lastAt: floats(receipts),
    runTime: floats(runs),
    runLsn: longs(runs),
    offsets: floats(ordinals),
    receiptRows: words(receipts),
    receiptRuns: words(receipts),
    ms: words(receipts),
    attempts: words(receipts),
    runRows: words(runs),
    hashes: words(rows),
    ordinals: words(ordinals),
    partitions: words(ordinals),
    table: shorts(receipts),
    status: shorts(receipts),
    checks: shorts(rows),
    outcome: bytes(receipts),
    kind: bytes(receipts),
    marks: bytes(rows),
    keys: bytes(keys * keyBytes),
    names: bytes(names),
  };
}

function sizeOf({ receipts, runs, rows, ordinals, keys, names }: Counts): number {
  return headerBytes + receipts * 38 + runs * 20 + rows * 7 + ordinals * 16 + keys * keyBytes + names;
}

export type Lists = ReturnType<typeof layout>;

/** New lists of these lengths, with what `from` has, as far as they reach. */
export function laidOut(counts: Counts, from?: Lists): Lists {
  const lists = layout(new ArrayBuffer(sizeOf(counts)), counts);
  if (!from) return lists;
  const { runLsn, ...others } = lists;
  runLsn.set(from.runLsn.subarray(0, runLsn.length));
  for (const [name, list] of Object.entries(others))
    list.set(from[name as keyof typeof others].subarray(0, list.length));
  return lists;
}

/** Offsets as differences to the one before of the same partition, which are small, and mostly equal. */
export class OffsetSteps {
  readonly #last = new Map<number, number>();

  step(table: number, partition: number, offset: number): number {
    const before = this.#last.get(placeOf(table, partition)) ?? 0;
    this.#took(table, partition, offset);
    return offset - before;
  }

  offset(table: number, partition: number, step: number): number {
    const offset = (this.#last.get(placeOf(table, partition)) ?? 0) + step;
    this.#took(table, partition, offset);
    return offset;
  }

  #took(table: number, partition: number, offset: number): void {
    if (!Number.isNaN(offset)) this.#last.set(placeOf(table, partition), offset);
  }
}

function placeOf(table: number, partition: number): number {
  return table * 2 ** 32 + partition;
}
