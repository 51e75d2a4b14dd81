// The body of a batch of receipts: pieces, each of the receipts of one save. A piece has a list of numbers for each thing that is kept, those
// of all receipts together, which compress well. Times and LSNs are differences. Written and read on machines of little-endian order alone.

import type { Lsn } from "../../../change/lsn.ts";
import { type Outcome, outcomes, type Receipt } from "./receipt.ts";
import type { KeptRows } from "./receipt-rows.ts";
import { setUuid, uuidText } from "./uuid-bytes.ts";

const formatPlain = 1;
const formatZstd = 2;
const pieceHeader = 5;
/** Smaller pieces are not worth it. */
const compressedFrom = 512;
const compressionLevel = 1;
const headerBytes = 24;
const keyBytes = 16;

interface Counts {
  readonly receipts: number;
  readonly runs: number;
  readonly rows: number;
  readonly ordinals: number;
  readonly keys: number;
  /** Of the tables' names as JSON. */
  readonly names: number;
}

/** The lists of a piece, all in one buffer: the larger their numbers are, the earlier they come. */
function layout(buffer: ArrayBuffer, { receipts, runs, rows, ordinals, keys, names }: Counts) {
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
    ...{ firstAt: floats(receipts), lastAt: floats(receipts), runTime: floats(runs), runLsn: longs(runs) },
    offsets: floats(ordinals),
    ...{
      receiptRows: words(receipts),
      receiptRuns: words(receipts),
      ms: words(receipts),
      attempts: words(receipts),
    },
    ...{ runRows: words(runs), hashes: words(rows), ordinals: words(ordinals), partitions: words(ordinals) },
    ...{ table: shorts(receipts), status: shorts(receipts), checks: shorts(rows) },
    ...{
      outcome: bytes(receipts),
      kind: bytes(receipts),
      marks: bytes(rows),
      keys: bytes(keys * keyBytes),
      names: bytes(names),
    },
  };
}

function sizeOf({ receipts, runs, rows, ordinals, keys, names }: Counts): number {
  return headerBytes + receipts * 38 + runs * 20 + rows * 7 + ordinals * 16 + keys * keyBytes + names;
}

/** What a receipt has: a key of its own, and rows whose places are kept. */
const hasKey = 1;
const hasOrdinals = 2;

/** One piece. Pieces are joined to a body. */
export function encodePiece(receipts: readonly Receipt[]): Uint8Array {
  const tables = new TableNumbers();
  for (const receipt of receipts) tables.number(receipt);
  const names = new TextEncoder().encode(tables.json);
  const sum = (of: (receipt: Receipt) => number) => receipts.reduce((total, each) => total + of(each), 0);
  const counts: Counts = {
    receipts: receipts.length,
    runs: sum(({ rows }) => rows.runRows.length),
    rows: sum(({ rows }) => rows.count),
    ordinals: sum(({ rows }) => rows.ordinals?.length ?? 0),
    keys: sum(({ key }) => (key === null ? 0 : 1)),
    names: names.length,
  };
  const buffer = new ArrayBuffer(sizeOf(counts));
  new Uint32Array(buffer, 0, headerBytes / 4).set(Object.values(counts));
  const lists = layout(buffer, counts);
  lists.names.set(names);
  fill(lists, receipts, tables);
  return framed(new Uint8Array(buffer));
}

function fill(lists: ReturnType<typeof layout>, receipts: readonly Receipt[], tables: TableNumbers): void {
  let row = 0;
  let run = 0;
  let ordinal = 0;
  let key = 0;
  let atMs = 0;
  let timeUs = 0;
  let lsn = 0n;
  const offsets = new OffsetSteps();
  receipts.forEach((receipt, i) => {
    const { rows } = receipt;
    lists.firstAt[i] = receipt.firstAtMs - atMs;
    lists.lastAt[i] = receipt.lastAtMs - receipt.firstAtMs;
    atMs = receipt.firstAtMs;
    lists.receiptRows[i] = rows.count;
    lists.receiptRuns[i] = rows.runRows.length;
    lists.ms[i] = receipt.ms;
    lists.attempts[i] = receipt.attempts;
    lists.table[i] = tables.number(receipt);
    lists.status[i] = receipt.status;
    lists.outcome[i] = outcomes.indexOf(receipt.outcome);
    lists.kind[i] = (receipt.key === null ? 0 : hasKey) | (rows.ordinals === null ? 0 : hasOrdinals);
    if (receipt.key !== null) setUuid(lists.keys, keyBytes * key++, receipt.key);
    // Most requests of one row have one each: setting a list costs more than that.
    for (let j = 0; j < rows.count; j++) {
      lists.hashes[row + j] = rows.hashes[j]!;
      lists.checks[row + j] = rows.checks[j]!;
      lists.marks[row + j] = rows.marks[j]!;
      if (!rows.ordinals) continue;
      const partition = rows.partitions?.[j] ?? 0;
      lists.ordinals[ordinal + j] = rows.ordinals[j]!;
      lists.partitions[ordinal + j] = partition;
      lists.offsets[ordinal + j] = offsets.step(lists.table[i]!, partition, rows.offsets?.[j] ?? Number.NaN);
    }
    row += rows.count;
    ordinal += rows.ordinals?.length ?? 0;
    for (let j = 0; j < rows.runRows.length; j++, run++) {
      lists.runRows[run] = rows.runRows[j]!;
      lists.runTime[run] = rows.runTimesUs[j]! - timeUs;
      lists.runLsn[run] = rows.runLsns[j]! - lsn;
      timeUs = rows.runTimesUs[j]!;
      lsn = rows.runLsns[j]!;
    }
  });
}

/** Numbers the tables of a piece. Receipts of one table mostly come one after the other. */
class TableNumbers {
  readonly #numbers = new Map<string, number>();
  #last = { schema: "", table: "", topic: undefined as string | undefined, number: -1 };

  get json(): string {
    return `[${[...this.#numbers.keys()].join(",")}]`;
  }

  number({ schema, table, topic }: Pick<Receipt, "schema" | "table" | "topic">): number {
    const last = this.#last;
    const isLast = last.table === table && last.schema === schema && last.topic === topic;
    if (last.number >= 0 && isLast) return last.number;
    const name = JSON.stringify(topic === undefined ? [schema, table] : [schema, table, topic]);
    const number = this.#numbers.get(name) ?? this.#numbers.size;
    this.#numbers.set(name, number);
    this.#last = { schema, table, topic, number };
    return number;
  }
}

/** Offsets as differences to the one before of the same partition, which are small, and mostly equal. */
class OffsetSteps {
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

function framed(plain: Uint8Array<ArrayBuffer>): Uint8Array {
  const isLarge = plain.length >= compressedFrom;
  const bytes = isLarge ? Bun.zstdCompressSync(plain, { level: compressionLevel }) : plain;
  const piece = new Uint8Array(pieceHeader + bytes.length);
  piece[0] = isLarge ? formatZstd : formatPlain;
  new DataView(piece.buffer).setUint32(1, bytes.length, true);
  piece.set(bytes, pieceHeader);
  return piece;
}

/** The receipts of a body, oldest first. Throws where it is not one. */
export function* decodeBody(body: Uint8Array): Generator<Receipt> {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  for (let at = 0; at < body.length; ) {
    const format = body[at];
    if (format !== formatPlain && format !== formatZstd) throw new Error("receipts of an unknown format");
    const end = at + pieceHeader + view.getUint32(at + 1, true);
    const bytes = body.subarray(at + pieceHeader, end);
    const plain = format === formatZstd ? Bun.zstdDecompressSync(bytes) : bytes;
    // The lists begin at multiples of their numbers' size.
    yield* decodePiece(new Uint8Array(plain).buffer);
    at = end;
  }
}

function* decodePiece(buffer: ArrayBuffer): Generator<Receipt> {
  const [receipts = 0, runs = 0, rows = 0, ordinals = 0, keys = 0, names = 0] = new Uint32Array(
    buffer,
    0,
    headerBytes / 4,
  );
  const lists = layout(buffer, { receipts, runs, rows, ordinals, keys, names });
  const tables = JSON.parse(new TextDecoder().decode(lists.names)) as readonly (readonly [
    schema: string,
    table: string,
    topic?: string,
  ])[];
  const ats = { row: 0, run: 0, ordinal: 0, key: 0 };
  let atMs = 0;
  const place = { timeUs: 0, lsn: 0n, offsets: new OffsetSteps() };
  for (let i = 0; i < receipts; i++) {
    const [schema, table, topic] = tables[lists.table[i]!]!;
    const kind = lists.kind[i]!;
    atMs += lists.firstAt[i]!;
    const key = (kind & hasKey) === 0 ? null : uuidText(lists.keys, keyBytes * ats.key++);
    yield {
      ...{ schema, table, ...(topic === undefined ? {} : { topic }) },
      ...{ key, outcome: outcomes[lists.outcome[i]!] as Outcome },
      ...{ attempts: lists.attempts[i]!, status: lists.status[i]!, ms: lists.ms[i]! },
      ...{ firstAtMs: atMs, lastAtMs: atMs + lists.lastAt[i]! },
      rows: rowsOf(lists, i, ats, place, topic !== undefined),
    };
  }
}

function placesOf(
  lists: ReturnType<typeof layout>,
  i: number,
  at: number,
  steps: OffsetSteps,
): Pick<KeptRows, "partitions" | "offsets"> {
  const count = lists.receiptRows[i]!;
  const partitions = lists.partitions.subarray(at, at + count);
  const offsets = lists.offsets
    .subarray(at, at + count)
    .map((step, row) => steps.offset(lists.table[i]!, partitions[row]!, step));
  return { partitions, offsets };
}

function rowsOf(
  lists: ReturnType<typeof layout>,
  i: number,
  at: { row: number; run: number; ordinal: number },
  place: { timeUs: number; lsn: bigint; readonly offsets: OffsetSteps },
  haveOffsets: boolean,
): KeptRows {
  const count = lists.receiptRows[i]!;
  const runs = lists.receiptRuns[i]!;
  const areMessages = (lists.kind[i]! & hasOrdinals) !== 0;
  const runTimesUs: number[] = [];
  const runLsns: Lsn[] = [];
  for (let run = at.run; run < at.run + runs; run++) {
    place.timeUs += lists.runTime[run]!;
    place.lsn = BigInt.asUintN(64, place.lsn + lists.runLsn[run]!);
    runTimesUs.push(place.timeUs);
    runLsns.push(place.lsn as Lsn);
  }
  const rows: KeptRows = {
    count,
    hashes: lists.hashes.subarray(at.row, at.row + count),
    checks: lists.checks.subarray(at.row, at.row + count),
    marks: lists.marks.subarray(at.row, at.row + count),
    ordinals: areMessages ? lists.ordinals.subarray(at.ordinal, at.ordinal + count) : null,
    runRows: lists.runRows.subarray(at.run, at.run + runs),
    ...{ runLsns, runTimesUs },
    ...(areMessages && haveOffsets ? placesOf(lists, i, at.ordinal, place.offsets) : {}),
  };
  at.row += count;
  at.run += runs;
  if (areMessages) at.ordinal += count;
  return rows;
}
