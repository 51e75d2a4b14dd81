// Appends bytes to chunks that are sent as they are.

import { releaseBytes } from "../../../memory/release-bytes.ts";

const { copy } = Buffer.prototype;

const chunkBytes = 256 * 1024;
/** Most batches are small. */
const firstChunkBytes = 8 * 1024;
/** Longer values are not copied: the chunk is a view of them. */
export const passedBytes = chunkBytes / 4;

/** Bytes that are made when they are sent. */
export type Deferred = () => Iterable<Uint8Array>;

/** A chunk is never reused. */
export class CopyChunks {
  chunk = new Uint8Array(firstChunkBytes);
  end = 0;
  readonly #full: (Uint8Array | Deferred)[] = [];
  /** Null: released. */
  #own: Uint8Array[] | null = [];

  reserve(length: number): void {
    if (this.end + length <= this.chunk.length) return;
    this.flush();
    this.chunk = new Uint8Array(Math.max(length, chunkBytes));
    this.#own?.push(this.chunk);
  }

  append(bytes: Uint8Array, start: number, end: number): void {
    const length = end - start;
    if (length > passedBytes) {
      this.pass(bytes.subarray(start, end));
      return;
    }
    this.reserve(length);
    // Makes no view, and is faster than a loop except for a few bytes.
    copy.call(bytes, this.chunk, this.end, start, end);
    this.end += length;
  }

  /** Appends the bytes without copying them. */
  pass(bytes: Uint8Array | Deferred): void {
    this.flush();
    this.#full.push(bytes);
  }

  flush(): void {
    if (this.end === 0) return;
    this.#full.push(this.chunk.subarray(0, this.end));
    this.chunk = this.chunk.subarray(this.end);
    this.end = 0;
  }

  release(): void {
    for (const chunk of this.#own ?? []) releaseBytes(chunk);
    this.#own = null;
  }

  *taken(): Generator<Uint8Array> {
    // Otherwise rows would be missing silently.
    if (this.#own === null) throw new Error("a body that was given back is read");
    this.flush();
    for (const chunk of this.#full) {
      if (chunk instanceof Uint8Array) yield chunk;
      else yield* chunk();
    }
  }
}
