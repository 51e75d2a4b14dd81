// The body of a batch of receipts: pieces, each of the receipts of one save. A piece is compressed where it is worth it.

import type { Lsn } from "../../../change/lsn.ts";
import { OpenPiece } from "./open-piece.ts";
import {
  hasKey,
  hasOrdinals,
  headerBytes,
  keyBytes,
  type Lists,
  layout,
  OffsetSteps,
} from "./piece-layout.ts";
import { type Outcome, outcomes, type Receipt } from "./receipt.ts";
import { uuidText } from "./uuid-bytes.ts";

const formatPlain = 1;
const formatZstd = 2;
const pieceHeader = 5;
/** Smaller pieces are not worth it. */
const compressedFrom = 512;
const compressionLevel = 1;

/** One piece. Pieces are joined to a body. */
export function encodePiece(receipts: readonly Receipt[]): Uint8Array {
  const piece = new OpenPiece();
  for (const receipt of receipts) piece.add(receipt);
  return framed(piece.bytes());
}

export function framed(plain: Uint8Array<ArrayBuffer>): Uint8Array {
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
  const shared = {
    hashes: lists.hashes,
    checks: lists.checks,
    marks: lists.marks,
    runRows: lists.runRows,
    runLsns: lsnsOf(lists),
    runTimesUs: timesOf(lists),
  };
  const steps = new OffsetSteps();
  let atMs = 0;
  let [first, firstRun, firstOrdinal, key] = [0, 0, 0, 0];
  for (let i = 0; i < receipts; i++) {
    const [schema, table, topic] = tables[lists.table[i]!]!;
    const kind = lists.kind[i]!;
    const count = lists.receiptRows[i]!;
    const runs = lists.receiptRuns[i]!;
    const areMessages = (kind & hasOrdinals) !== 0;
    atMs += lists.firstAt[i]!;
    const places = areMessages ? placesOf(lists, i, firstOrdinal, steps) : { ordinals: null };
    const { ordinals } = places;
    yield {
      schema,
      table,
      ...(topic === undefined ? {} : { topic }),
      key: (kind & hasKey) === 0 ? null : uuidText(lists.keys, keyBytes * key++),
      outcome: outcomes[lists.outcome[i]!] as Outcome,
      attempts: lists.attempts[i]!,
      status: lists.status[i]!,
      ms: lists.ms[i]!,
      firstAtMs: atMs,
      lastAtMs: atMs + lists.lastAt[i]!,
      rows: { lists: shared, first, count, firstRun, runs, ...(topic === undefined ? { ordinals } : places) },
    };
    first += count;
    firstRun += runs;
    if (areMessages) firstOrdinal += count;
  }
}

function lsnsOf({ runLsn }: Lists): Lsn[] {
  let lsn = 0n;
  return Array.from(runLsn, (step) => {
    lsn = BigInt.asUintN(64, lsn + step);
    return lsn as Lsn;
  });
}

function timesOf({ runTime }: Lists): Float64Array {
  let timeUs = 0;
  return runTime.map((step) => {
    timeUs += step;
    return timeUs;
  });
}

function placesOf(lists: Lists, i: number, at: number, steps: OffsetSteps) {
  const end = at + lists.receiptRows[i]!;
  const partitions = lists.partitions.subarray(at, end);
  const offsets = lists.offsets
    .subarray(at, end)
    .map((step, row) => steps.offset(lists.table[i]!, partitions[row]!, step));
  return { ordinals: lists.ordinals.subarray(at, end), partitions, offsets };
}
