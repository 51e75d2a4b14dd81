// Collects tuples as the body of a COPY FROM STDIN: as they are for the binary form, or escaped for the text form.
// https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS

import { NULL_LENGTH, type TupleForm, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { storedBytes } from "../../../change/packed-hex.ts";
import type { TupleRef } from "../../../change/tuple.ts";
import { readInt32 } from "../apply/key-index.ts";
import { CopyChunks, passedBytes } from "./copy-chunks.ts";
import { writeTextValues } from "./copy-escapes.ts";
import { binaryHeader, binaryTrailer } from "./copy-in.ts";
import { largeTextRow } from "./large-text-row.ts";

export interface CopyBody {
  /** Tuples so far. */
  readonly rows: number;
  /** `isPartial`: values that the source did not send become null. */
  add(tuple: TupleRef, isPartial?: boolean): void;
  /** As `add`, with an int4 column `group` before the others. */
  addGrouped(group: number, tuple: TupleRef, isPartial?: boolean): void;
  /** Adds tuples that are contiguous in memory. */
  addRun(run: TupleRef, rows: number): void;
  chunks(): Iterable<Uint8Array>;
  /** Frees the memory. The body must not be read after that. */
  release(): void;
}

export function copyBody(form: TupleForm): CopyBody {
  return form === "binary" ? new BinaryBody() : new TextBody();
}

const nullLength = Buffer.alloc(4);
nullLength.writeInt32BE(NULL_LENGTH);

class BinaryBody implements CopyBody {
  rows = 0;
  readonly #chunks = new CopyChunks();

  add({ bytes, start, end }: TupleRef, isPartial = false): void {
    this.rows++;
    if (isPartial) this.#chunks.append(bytes, start, start + 2);
    this.#values(bytes, isPartial ? start + 2 : start, end, isPartial);
  }

  addGrouped(group: number, { bytes, start, end }: TupleRef, isPartial = false): void {
    this.rows++;
    const chunks = this.#chunks;
    chunks.reserve(10);
    const columns = ((bytes[start]! << 8) | bytes[start + 1]!) + 1;
    const chunk = chunks.chunk;
    let at = chunks.end;
    chunk[at++] = columns >> 8;
    chunk[at++] = columns & 0xff;
    chunk[at++] = 0;
    chunk[at++] = 0;
    chunk[at++] = 0;
    chunk[at++] = 4;
    chunk[at++] = group >>> 24;
    chunk[at++] = (group >>> 16) & 0xff;
    chunk[at++] = (group >>> 8) & 0xff;
    chunk[at++] = group & 0xff;
    chunks.end = at;
    this.#values(bytes, start + 2, end, isPartial);
  }

  #values(bytes: Uint8Array, start: number, end: number, isPartial: boolean): void {
    const chunks = this.#chunks;
    if (!isPartial) {
      chunks.append(bytes, start, end);
      return;
    }
    for (let at = start; at < end; ) {
      const length = readInt32(bytes, at);
      const next = at + 4 + storedBytes(length);
      if (length === UNCHANGED_LENGTH) chunks.append(nullLength, 0, 4);
      else chunks.append(bytes, at, next);
      at = next;
    }
  }

  addRun(run: TupleRef, rows: number): void {
    this.rows += rows;
    this.#chunks.append(run.bytes, run.start, run.end);
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

const newline = 0x0a;

class TextBody implements CopyBody {
  rows = 0;
  readonly #chunks = new CopyChunks();

  add(tuple: TupleRef): void {
    this.#row(tuple, null);
  }

  addGrouped(group: number, tuple: TupleRef): void {
    this.#row(tuple, group);
  }

  addRun({ bytes, start, end }: TupleRef): void {
    for (let at = start; at < end; ) {
      const columns = (bytes[at]! << 8) | bytes[at + 1]!;
      let next = at + 2;
      for (let i = 0; i < columns; i++) next += 4 + storedBytes(readInt32(bytes, next));
      this.#row({ bytes, start: at, end: next }, null);
      at = next;
    }
  }

  chunks(): Generator<Uint8Array> {
    return this.#chunks.taken();
  }

  release(): void {
    this.#chunks.release();
  }

  #row(tuple: TupleRef, group: number | null): void {
    this.rows++;
    const chunks = this.#chunks;
    const { bytes, start, end } = tuple;
    if (end - start > passedBytes) {
      chunks.pass(() => largeTextRow(tuple, group));
      return;
    }
    // Every byte may need a backslash; a null is shorter than its length was.
    chunks.reserve((end - start) * 2 + 16);
    const chunk = chunks.chunk;
    let write = chunks.end;
    if (group !== null) for (const digit of String(group)) chunk[write++] = digit.charCodeAt(0);
    write = writeTextValues(chunk, write, bytes, start, group !== null);
    chunk[write++] = newline;
    chunks.end = write;
  }
}
