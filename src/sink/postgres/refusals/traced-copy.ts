// Copies a table in slices after a refusal, so that the refused row is in memory and can be reported by its key. The server names at most a line,
// and none for a deferred constraint.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import { longestPrefix } from "./longest-prefix.ts";
import { isRefusal, shownKey } from "./refused-row.ts";
import { CopyRowRefused, lineOf } from "./refused-rows.ts";

const newline = 10;
const sliceBytes = 1024 * 1024;

/**
 * As `copyIn`, for a copy in text form inside a transaction. Throws CopyRowRefused if the row is found. Not for tables whose rows refer to each
 * other: a referenced row may be in a later slice.
 */
export async function tracedCopyIn(
  client: Client,
  sql: string,
  relation: Relation,
  chunks: AsyncIterable<Uint8Array>,
): Promise<number> {
  await using slices = new RowSlices(chunks);
  let rows = 0;
  for (let slice = await slices.next(); slice; slice = await slices.next()) {
    await client.query("savepoint slice");
    try {
      rows += await copyIn(client, sql, slice.bytes());
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const line = lineOf(error) ?? (await findLine(client, sql, slice));
      if (line === null) throw error;
      throw new CopyRowRefused(rows + line, keyOf(relation, slice.lineAt(line)), error);
    }
    await client.query("release savepoint slice");
  }
  return rows;
}

/** Finds the refused row by trying prefixes of the slice. Null: the slice is not in memory as a whole. */
async function findLine(client: Client, sql: string, slice: RowSlice): Promise<number | null> {
  const lines = await slice.lines();
  if (lines === null) return null;
  const isAccepted = async (count: number) => {
    await client.query("rollback to savepoint slice");
    try {
      await copyIn(client, sql, [slice.beginning(lines[count - 1] ?? 0)]);
      return true;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return false;
    }
  };
  return (await longestPrefix(lines.length, isAccepted)) + 1;
}

/** Cuts a copy in text form into slices of whole rows. A row is a line, as line feeds in values are escaped. */
class RowSlices implements AsyncDisposable {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** The next slice; null after the last row. The slice before must have been read to its end. */
  async next(): Promise<RowSlice | null> {
    const first = await this.take();
    if (first === null) return null;
    this.#rest = first;
    return new RowSlice(this);
  }

  async take(): Promise<Uint8Array | null> {
    const rest = this.#rest;
    this.#rest = new Uint8Array(0);
    if (rest.length > 0) return rest;
    while (true) {
      const { value, done } = await this.#chunks.next();
      if (done) return null;
      if (value.length > 0) return value;
    }
  }

  putBack(rest: Uint8Array): void {
    this.#rest = rest;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#chunks.return?.();
  }
}

/** Whole rows. Their bytes are kept up to a bound, so that only the end of a long last row is missing. */
class RowSlice {
  readonly #kept = Buffer.allocUnsafe(sliceBytes * 2);
  #bytes = 0;
  #isComplete = false;

  constructor(private readonly slices: RowSlices) {}

  async *bytes(): AsyncGenerator<Uint8Array> {
    while (!this.#isComplete) {
      const part = await this.#take();
      if (part) yield part;
    }
  }

  async #take(): Promise<Uint8Array | null> {
    const chunk = await this.slices.take();
    if (chunk === null) {
      this.#isComplete = true;
      return null;
    }
    const end = chunk.indexOf(newline, Math.max(0, sliceBytes - this.#bytes)) + 1;
    this.#isComplete = end > 0;
    const part = end > 0 ? chunk.subarray(0, end) : chunk;
    if (end > 0) this.slices.putBack(chunk.subarray(end));
    // Copied, as the chunk's memory is reused.
    if (this.#bytes < this.#kept.length)
      this.#kept.set(part.subarray(0, this.#kept.length - this.#bytes), this.#bytes);
    this.#bytes += part.length;
    return part;
  }

  /** The ends of all lines; null: not all bytes are kept. */
  async lines(): Promise<readonly number[] | null> {
    while (!this.#isComplete) await this.#take();
    if (this.#bytes > this.#kept.length) return null;
    const ends: number[] = [];
    for (
      let at = this.#kept.indexOf(newline);
      at >= 0 && at < this.#bytes;
      at = this.#kept.indexOf(newline, at + 1)
    )
      ends.push(at + 1);
    return ends;
  }

  beginning(bytes: number): Uint8Array {
    return this.#kept.subarray(0, bytes);
  }

  /** The text of a line, counted from 1, as far as it is kept. */
  lineAt(line: number): Uint8Array {
    const kept = this.#kept.subarray(0, this.#bytes);
    let start = 0;
    for (let i = 1; i < line; i++) start = kept.indexOf(newline, start) + 1;
    const end = kept.indexOf(newline, start);
    return kept.subarray(start, end < 0 ? kept.length : end);
  }
}

/** The key of a row in COPY's text form. */
function keyOf({ key, columns }: Relation, line: Uint8Array): string | null {
  const fields = Buffer.from(line).toString().split("\t");
  const values = key.flatMap((i) => fields[i] ?? []);
  if (key.length === 0 || values.length < key.length) return null;
  return shownKey(
    key.map((i) => columns[i]!.name),
    values.map((value) =>
      value === "\\N" ? null : value.replace(/\\(.)/gs, (_, letter: string) => letters[letter] ?? letter),
    ),
  );
}

/** https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2 */
const letters: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };
