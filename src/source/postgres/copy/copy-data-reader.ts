// Finds the rows of a COPY TO STDOUT in the bytes of its socket, and hands them on in blocks. The server sends each row as a message
// of its own; an object for each of millions would cost more than to read and to write it. What is not CopyData goes to pg as it came.
// https://www.postgresql.org/docs/current/protocol-message-formats.html (CopyData)

import { releaseBytes } from "../../../change/release-bytes.ts";

const copyData = 0x64;
/** Type and length of a message. */
const headerBytes = 5;
/** So many bytes of rows that come in one chunk stay where they are; fewer are packed. */
const leastKeptBytes = 64 * 1024;
/** Small tables are many. */
const firstBlockBytes = 16 * 1024;
const largestBlockBytes = 256 * 1024;

interface Block {
  readonly rows: Uint8Array;
  /** What the rows lie in. */
  readonly memory: Uint8Array;
}

export class CopyDataReader {
  /** Full ones, in order. */
  readonly #blocks: Block[] = [];
  #blockBytes = 0;
  #taken: Block | null = null;
  #block = Buffer.alloc(0);
  #filled = 0;
  /** Of the next block. */
  #nextBytes = firstBlockBytes;
  /** The beginning of a message whose header has not come as a whole. */
  readonly #header = Buffer.alloc(headerBytes);
  #headerFilled = 0;
  /** Of the message that is on its way: what is to come of it. */
  #left = 0;
  #isData = false;
  #messages = 0;

  constructor(
    /** Bytes of other messages, in order; the handler's to keep. */
    private readonly onOther: (bytes: Buffer) => void,
  ) {}

  /** The chunk is the reader's, to write over and to give back. */
  push(chunk: Buffer): void {
    const end = this.#moveTogether(chunk);
    // Of a part of a larger buffer, what lies beside it is somebody else's.
    const isAlone = chunk.length === chunk.buffer.byteLength;
    if (end < leastKeptBytes || !isAlone) {
      this.#append(chunk, end);
      releaseBytes(chunk);
      return;
    }
    if (this.#filled > 0) this.#add(this.#takeRest());
    this.#add({ rows: chunk.subarray(0, end), memory: chunk });
  }

  /** The beginning of a header whose rest has not come: for who reads on from here. */
  takeHeader(): Buffer {
    const header = Buffer.from(this.#header.subarray(0, this.#headerFilled));
    this.#headerFilled = 0;
    return header;
  }

  /** Messages of data that have begun: the server sends each row in one, and the end of a binary copy in another. */
  get messages(): number {
    return this.#messages;
  }

  /** Bytes in blocks that are full. */
  get blockBytes(): number {
    return this.#blockBytes;
  }

  /** Bytes that are in no full block yet. */
  get restBytes(): number {
    return this.#filled;
  }

  /** The oldest bytes, or null when there are none. The caller's, up to `giveBack`. */
  take(): Uint8Array | null {
    const block = this.#blocks.shift();
    if (block) this.#blockBytes -= block.rows.length;
    this.#taken = block ?? (this.#filled > 0 ? this.#takeRest() : null);
    return this.#taken?.rows ?? null;
  }

  /** Nobody reads what was taken last any more. */
  giveBack(): void {
    if (this.#taken) releaseBytes(this.#taken.memory);
    this.#taken = null;
  }

  #add(block: Block): void {
    this.#blocks.push(block);
    this.#blockBytes += block.rows.length;
  }

  #takeRest(): Block {
    const rest = this.#block.subarray(0, this.#filled);
    // The rows that follow go into what is left of the memory, unless that is little.
    this.#block = this.#block.subarray(this.#filled);
    if (this.#block.length < firstBlockBytes) this.#block = Buffer.alloc(0);
    this.#filled = 0;
    return { rows: rest, memory: rest };
  }

  /** Moves the rows of a chunk to its beginning, one behind the other. Returns where they end. */
  #moveTogether(chunk: Buffer): number {
    const { length } = chunk;
    let end = 0;
    for (let at = 0; at < length; ) {
      const next = Math.min(length, at + this.#left);
      this.#left -= next - at;
      if (!this.#isData) {
        if (next > at) this.onOther(Buffer.from(chunk.subarray(at, next)));
      } else if (next > at) {
        chunk.copyWithin(end, at, next);
        end += next - at;
      }
      at = this.#readHeader(chunk, next);
    }
    return end;
  }

  /** Returns where it ends, or the chunk does. */
  #readHeader(chunk: Buffer, at: number): number {
    if (this.#headerFilled === 0 && at + headerBytes <= chunk.length) {
      this.#begin(chunk, at);
      return at + headerBytes;
    }
    const taken = chunk.copy(this.#header, this.#headerFilled, at);
    this.#headerFilled += taken;
    if (this.#headerFilled === headerBytes) {
      this.#headerFilled = 0;
      this.#begin(this.#header, 0);
    }
    return at + taken;
  }

  /** The message whose header is at `at`. */
  #begin(bytes: Buffer, at: number): void {
    this.#isData = bytes[at] === copyData;
    // Of a length below the least that there is, nothing is to come.
    this.#left = Math.max(0, bytes.readUInt32BE(at + 1) - (headerBytes - 1));
    if (this.#isData) this.#messages++;
    else this.onOther(Buffer.from(bytes.subarray(at, at + headerBytes)));
  }

  #append(chunk: Buffer, end: number): void {
    for (let at = 0; at < end; ) {
      if (this.#filled === this.#block.length) this.#turnOver();
      const taken = chunk.copy(this.#block, this.#filled, at, end);
      this.#filled += taken;
      at += taken;
    }
  }

  #turnOver(): void {
    if (this.#filled > 0) this.#add({ rows: this.#block, memory: this.#block });
    this.#block = Buffer.allocUnsafeSlow(this.#nextBytes);
    this.#nextBytes = Math.min(this.#nextBytes * 2, largestBlockBytes);
    this.#filled = 0;
  }
}
