// Collects rows of a history as the body of a COPY: a tuple, and behind it what says which change it is of. copy-body.ts does the same for rows
// of tables. https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS

import { NULL_LENGTH, type TupleForm, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { storedBytes } from "../../../change/packed-hex.ts";
import type { TupleRef } from "../../../change/tuple.ts";
import { readInt32 } from "../apply/key-index.ts";
import { CopyChunks, passedBytes } from "../copy-in/copy-chunks.ts";
import { writeTextValues } from "../copy-in/copy-escapes.ts";
import { binaryHeader, binaryTrailer } from "../copy-in/copy-in.ts";
import { largeTextRow } from "../copy-in/large-text-row.ts";

/** A transaction, as its rows name it. */
export interface HistoryPlace {
  readonly commitLsn: Lsn;
  /** In microseconds since 1970-01-01 UTC. */
  readonly commitTimeUs: bigint;
}

export interface HistoryBody {
  readonly rows: number;
  /**
   * `mark`: the operation's letter, or in a staging table the number of the row's group. `isPartial`: values that the source did not
   * send become null. Rows of one transaction follow each other, with one and the same `place`.
   */
  add(
    tuple: TupleRef,
    mark: string | number,
    place: HistoryPlace,
    ordinal: number,
    isPartial?: boolean,
  ): void;
  chunks(): Iterable<Uint8Array>;
  release(): void;
}

export function historyBody(form: TupleForm): HistoryBody {
  return form === "binary" ? new BinaryHistory() : new TextHistory();
}

const ownColumns = 4;
const microsecondsTo2000 = 946_684_800_000_000n;
/** int4 length and value of time and LSN, and the ordinal's. */
const placeBytes = 24;
const ordinalBytes = 12;
const nullLength = Buffer.alloc(4);
nullLength.writeInt32BE(NULL_LENGTH);

class BinaryHistory implements HistoryBody {
  rows = 0;
  readonly #chunks = new CopyChunks();
  /** The bytes of the last place. */
  readonly #placeBytes = Buffer.alloc(placeBytes);
  #place: HistoryPlace | null = null;

  add(
    { bytes, start, end }: TupleRef,
    mark: string | number,
    place: HistoryPlace,
    ordinal: number,
    isPartial = false,
  ): void {
    this.rows++;
    if (place !== this.#place) this.#setPlace(place);
    const chunks = this.#chunks;
    const isShort = end - start <= passedBytes;
    chunks.reserve(2 + (isShort ? end - start + 8 + placeBytes + ordinalBytes : 0));
    const columns = ((bytes[start]! << 8) | bytes[start + 1]!) + ownColumns;
    chunks.chunk[chunks.end++] = columns >> 8;
    chunks.chunk[chunks.end++] = columns & 0xff;
    if (isPartial) this.#values(bytes, start + 2, end);
    else chunks.append(bytes, start + 2, end);
    chunks.reserve(8 + placeBytes + ordinalBytes);
    this.#behind(mark, ordinal);
  }

  #setPlace(place: HistoryPlace): void {
    this.#place = place;
    this.#placeBytes.writeInt32BE(8, 0);
    this.#placeBytes.writeBigInt64BE(place.commitTimeUs - microsecondsTo2000, 4);
    this.#placeBytes.writeInt32BE(8, 12);
    this.#placeBytes.writeBigUInt64BE(place.commitLsn, 16);
  }

  #behind(mark: string | number, ordinal: number): void {
    const chunks = this.#chunks;
    const { chunk } = chunks;
    let at = typeof mark === "number" ? writeInt32(chunk, chunks.end, 4) : writeInt32(chunk, chunks.end, 1);
    if (typeof mark === "number") at = writeInt32(chunk, at, mark);
    else chunk[at++] = mark.charCodeAt(0);
    chunk.set(this.#placeBytes, at);
    at = writeInt32(chunk, at + placeBytes, 8);
    at = writeInt32(chunk, at, Math.floor(ordinal / 4294967296));
    chunks.end = writeInt32(chunk, at, ordinal % 4294967296);
  }

  /** A value that was not sent has a length of its own, which COPY does not know. */
  #values(bytes: Uint8Array, start: number, end: number): void {
    let from = start;
    for (let at = start; at < end; ) {
      const length = readInt32(bytes, at);
      const next = at + 4 + storedBytes(length);
      if (length === UNCHANGED_LENGTH) {
        if (at > from) this.#chunks.append(bytes, from, at);
        this.#chunks.append(nullLength, 0, 4);
        from = next;
      }
      at = next;
    }
    if (end > from) this.#chunks.append(bytes, from, end);
  }

  *chunks(): Generator<Uint8Array> {
    yield binaryHeader;
    yield* this.#chunks.taken();
    yield binaryTrailer;
  }

  release(): void {
    this.#chunks.release();
  }
}

function writeInt32(bytes: Uint8Array, at: number, value: number): number {
  bytes[at] = value >>> 24;
  bytes[at + 1] = (value >>> 16) & 0xff;
  bytes[at + 2] = (value >>> 8) & 0xff;
  bytes[at + 3] = value & 0xff;
  return at + 4;
}

const newline = 0x0a;
/** More than any mark, time, LSN and ordinal take. */
const mostBehind = 120;

class TextHistory implements HistoryBody {
  rows = 0;
  readonly #chunks = new CopyChunks();
  #place: HistoryPlace | null = null;
  #placeText = "";

  add(tuple: TupleRef, mark: string | number, place: HistoryPlace, ordinal: number): void {
    this.rows++;
    if (place !== this.#place) {
      this.#place = place;
      this.#placeText = `${timeText(place.commitTimeUs)}\t${formatLsn(place.commitLsn)}`;
    }
    const { bytes, start, end } = tuple;
    const hasColumns = end - start > 2;
    const behind = `${hasColumns ? "\t" : ""}${mark}\t${this.#placeText}\t${ordinal}`;
    const chunks = this.#chunks;
    if (end - start > passedBytes) {
      const written = Buffer.from(behind);
      chunks.pass(() => largeTextRow(tuple, null, written));
      return;
    }
    // Every byte may need a backslash; a null is shorter than its length was.
    chunks.reserve((end - start) * 2 + 16 + mostBehind);
    let write = writeTextValues(chunks.chunk, chunks.end, bytes, start, false);
    for (let i = 0; i < behind.length; i++) chunks.chunk[write++] = behind.charCodeAt(i);
    chunks.chunk[write++] = newline;
    chunks.end = write;
  }

  chunks(): Generator<Uint8Array> {
    return this.#chunks.taken();
  }

  release(): void {
    this.#chunks.release();
  }
}

/** As timestamptz reads it, with all microseconds. */
export function timeText(us: bigint): string {
  const second = us >= 0n ? us / 1_000_000n : (us - 999_999n) / 1_000_000n;
  const fraction = String(us - second * 1_000_000n).padStart(6, "0");
  return `${new Date(Number(second) * 1000).toISOString().slice(0, 19)}.${fraction}Z`;
}
