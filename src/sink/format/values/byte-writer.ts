// A growing buffer that JSON is written into. Writers of values reserve space, then write `bytes` at `length` themselves. A large value
// is not written: its place is remembered.

import { releaseArena, retainArena } from "./arena-references.ts";
import type { LargeValue } from "./large-value.ts";
import { PartedBody, type RequestBody } from "./message-body.ts";

const initialBytes = 4 * 1024;

export class ByteWriter {
  bytes: Uint8Array<ArrayBuffer>;
  length = 0;
  /** Large values, each to stand before `bytes[at]`. */
  #large: { readonly at: number; readonly value: LargeValue }[] = [];
  #largeBytes = 0;

  constructor(capacity: number = initialBytes) {
    this.bytes = new Uint8Array(capacity);
  }

  /** Bytes of JSON, with those of large values. */
  get size(): number {
    return this.length + this.#largeBytes;
  }

  /** Puts a large value here. */
  large(value: LargeValue): void {
    retainArena(value.source);
    this.#large.push({ at: this.length, value });
    this.#largeBytes += value.length;
  }

  /** Forgets what was written: it is not sent. Large values are given back. */
  clear(): void {
    this.length = 0;
    if (this.#large.length === 0) return;
    for (const { value } of this.#large.splice(0)) releaseArena(value.source);
    this.#largeBytes = 0;
  }

  /** Moves what was written from `start` on to the end of `to`. */
  moveTail(start: number, to: ByteWriter): void {
    const shift = to.length - start;
    to.raw(this.bytes, start, this.length);
    this.length = start;
    const behind = this.#large.findIndex(({ at }) => at >= start);
    if (behind < 0) return;
    for (const { at, value } of this.#large.splice(behind)) {
      to.#large.push({ at: at + shift, value });
      to.#largeBytes += value.length;
      this.#largeBytes -= value.length;
    }
  }

  /** Returns what was written as a body of its own, and empties the writer. */
  takeBody(): RequestBody {
    const large = this.#large;
    const written = this.slice();
    this.length = 0;
    if (large.length === 0) return written;
    this.#large = [];
    this.#largeBytes = 0;
    let from = 0;
    const parts = large.flatMap(({ at, value }) => {
      const before = written.subarray(from, at);
      from = at;
      return [before, value];
    });
    return new PartedBody([...parts, written.subarray(from)]);
  }

  /** Makes space for `count` bytes after `length`. `bytes` may be another array afterwards. */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }

  byte(value: number): void {
    if (this.length === this.bytes.length) this.reserve(1);
    this.bytes[this.length++] = value;
  }

  /** Copies `source[start, end)` as it is. */
  raw(source: Uint8Array, start: number, end: number): void {
    const count = end - start;
    this.reserve(count);
    if (count > 64) {
      this.bytes.set(source.subarray(start, end), this.length);
      this.length += count;
      return;
    }
    const bytes = this.bytes;
    let at = this.length;
    for (let i = start; i < end; i++) bytes[at++] = source[i]!;
    this.length = at;
  }

  all(source: Uint8Array): void {
    const { length } = source;
    if (length <= 64) {
      this.raw(source, 0, length);
      return;
    }
    this.reserve(length);
    this.bytes.set(source, this.length);
    this.length += length;
  }

  /** A whole number from 0 to 2^53 - 1, in digits. */
  digits(value: number): void {
    this.reserve(16);
    let width = 1;
    for (let limit = 10; value >= limit && width < 16; limit *= 10) width++;
    const bytes = this.bytes;
    let at = this.length + width;
    this.length = at;
    // Split so that the many divisions are of small integers.
    const high = Math.floor(value / 1e8);
    let low = value - high * 1e8;
    for (let i = 0; i < width; i++) {
      if (i === 8) low = high;
      const rest = Math.floor(low / 10);
      bytes[--at] = 48 + (low - rest * 10);
      low = rest;
    }
  }

  /** A copy of what was written from `start` on. */
  slice(start = 0): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(start, this.length);
  }
}
