// Cuts a request into parts by its rows. Each part is a request of its own, with a key that comes of the request's key and its rows: the same
// part has the same key for ever. Pure.

import { uuidV7 } from "../../format/idempotency-key.ts";
import { bodyChunks, type RequestBody } from "../../format/values/message-body.ts";
import type { OutgoingRequest, RequestRows } from "../stream/outgoing-request.ts";
import type { RowPlace } from "./parked-index.ts";
import { type RowPoint, rowPoint } from "./row-place.ts";

const openingBracket = 91;
const closingBracket = 93;
const comma = 44;

/** A request, with what is needed to cut it. */
export type RowsRequest = OutgoingRequest & { readonly rowMarks: RequestRows };

/** Whether it can be cut. */
export function isMarked(request: OutgoingRequest): request is RowsRequest {
  return request.rowMarks !== undefined;
}

/** Where its rows stand in the order of their keys. */
export function placesOf({ touches, rowMarks }: RowsRequest): RowPlace[] {
  const { commitLsns, steps, versions, touchEnds, isOfCopy } = rowMarks;
  const endOf = (row: number) => (row < 0 ? 0 : (touchEnds?.[row] ?? row + 1));
  return versions.map((version, row) => ({
    hashes: touches.slice(endOf(row - 1), endOf(row)),
    ...rowPoint(commitLsns[row]!, steps[row]!, version, isOfCopy),
  }));
}

/** Where its last row stands. */
export function lastPoint({ rowMarks: { commitLsns, steps, versions, isOfCopy } }: RowsRequest): RowPoint {
  return rowPoint(commitLsns.at(-1)!, steps.at(-1)!, versions.at(-1)!, isOfCopy);
}

/** The first half of the rows, and the second. */
export function halves(rows: number): readonly number[][] {
  const middle = Math.ceil(rows / 2);
  const all = Array.from({ length: rows }, (_, i) => i);
  return [all.slice(0, middle), all.slice(middle)];
}

/** The requests of these lists of rows, each in their order. A list has indexes into `request`, rising. */
export function partsOf(request: RowsRequest, lists: readonly (readonly number[])[]): RowsRequest[] {
  const places = placesOf(request);
  return lists.map((rows) => partOf(request, rows, places));
}

function partOf(request: RowsRequest, rows: readonly number[], places: readonly RowPlace[]): RowsRequest {
  const { rowMarks, receiptRows } = request;
  const { isBare } = rowMarks;
  const spans = rows.map((row) => spanOf(rowMarks, row));
  const length = spans.reduce((sum, [from, to]) => sum + to - from, 0);
  const body = new Uint8Array(length + (isBare ? 0 : rows.length + 1));
  const ends = gather(request.body, spans, body, isBare ? 0 : 1);
  if (!isBare) {
    body[0] = openingBracket;
    for (const end of ends) body[end] = comma;
    body[body.length - 1] = closingBracket;
  }
  const touches: number[] = [];
  const touchEnds = rows.map((row) => touches.push(...places[row]!.hashes));
  const of = <T>(list: readonly T[]) => rows.map((row) => list[row]!);
  const { commitLsns, steps, versions, commitTimesUs } = rowMarks;
  return {
    ...request,
    body,
    touches,
    rows: rows.length,
    idempotencyKey: partKey(request.idempotencyKey, rows),
    ...(receiptRows ? { receiptRows: receiptRows.part(rows) } : {}),
    rowMarks: {
      ...rowMarks,
      ends,
      touchEnds,
      commitLsns: of(commitLsns),
      steps: of(steps),
      versions: of(versions),
      commitTimesUs: of(commitTimesUs),
    },
  };
}

/** The bytes of row `row`, at most the first `most`. */
export function rowBytes({ body, rowMarks }: RowsRequest, row: number, most: number): Uint8Array {
  const [from, to] = spanOf(rowMarks, row);
  const bytes = new Uint8Array(Math.min(to - from, most));
  gather(body, [[from, from + bytes.length]], bytes, 0);
  return bytes;
}

/** The body in one piece, which is a copy of it. */
export function wholeBody(body: RequestBody): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(body.length);
  gather(body, [[0, body.length]], bytes, 0);
  return bytes;
}

type Span = readonly [from: number, to: number];

/** Rows are apart by a comma. */
function spanOf({ ends, isBare }: RequestRows, row: number): Span {
  return [row === 0 ? (isBare ? 0 : 1) : ends[row - 1]! + 1, ends[row]!];
}

/** Copies rising spans of `body` to `to`, from `at` on and a byte apart. Returns where each ends. */
function gather(body: RequestBody, spans: readonly Span[], to: Uint8Array, at: number): number[] {
  const ends: number[] = [];
  let start = 0;
  let i = 0;
  for (const chunk of bodyChunks(body)) {
    const end = start + chunk.length;
    while (i < spans.length && spans[i]![0] < end) {
      const [from, until] = spans[i]!;
      const piece = chunk.subarray(Math.max(from - start, 0), Math.min(until - start, chunk.length));
      to.set(piece, at);
      at += piece.length;
      if (until > end) break;
      ends.push(at++);
      i++;
    }
    if (i === spans.length) break;
    start = end;
  }
  return ends;
}

/** A UUIDv7 with the time of `key`, and a hash of it and of the rows. */
function partKey(key: string, rows: readonly number[]): string {
  const digest = new Uint8Array(new Bun.CryptoHasher("sha256").update(`${key}:${rows.join(",")}`).digest());
  return uuidV7(Number.parseInt(key.slice(0, 8) + key.slice(9, 13), 16), digest);
}
