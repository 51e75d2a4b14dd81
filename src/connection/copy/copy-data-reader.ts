// Extracts the rows of a COPY TO STDOUT from the bytes of its socket, and returns them in blocks. The server sends each
// row as a message of its own: an object for each would cost more than reading and writing it. Messages other than
// CopyData are passed on to pg unchanged.
// https://www.postgresql.org/docs/current/protocol-message-formats.html (CopyData)

import { releaseBytes } from "../../memory/release-bytes.ts";

const copyData = 0x64;
/** Tag and length of a message. */
const headerBytes = 5;
/**
 * A chunk with so many bytes of rows becomes a block as it is; the rows of a smaller one are copied together with
 * others.
 */
const minKeptBytes = 64 * 1024;
/** Most tables are small. */
const firstBlockBytes = 16 * 1024;
const maxBlockBytes = 256 * 1024;

interface Block {
  readonly rows: Uint8Array;
  /** The buffer that the rows are in. */
  readonly memory: Uint8Array;
}

export class CopyDataReader {
  /** Full blocks, in order. */
  readonly #blocks: Block[] = [];
  #blockBytes = 0;
  #taken: Block | null = null;
  #block = Buffer.alloc(0);
  #filled = 0;
  /** Size of the next block. */
  #nextBytes = firstBlockBytes;
  /** The beginning of an incomplete message header. */
  readonly #header = Buffer.alloc(headerBytes);
  #headerFilled = 0;
  /** Bytes of the current message that have not arrived. */
  #left = 0;
  #isData = false;
  #messages = 0;

  constructor(
    /** Gets the bytes of other messages, in order. It may keep them. */
    private readonly onOther: (bytes: Buffer) => void,
  ) {}

  /** The reader owns the chunk: it overwrites and frees it. */
  push(chunk: Buffer): void {
    const end = this.#compact(chunk);
    // The rest of a larger buffer belongs to somebody else.
    const isAlone = chunk.length === chunk.buffer.byteLength;
    if (end < minKeptBytes || !isAlone) {
      this.#append(chunk, end);
      releaseBytes(chunk);
      return;
    }
    if (this.#filled > 0) this.#add(this.#takeRest());
    this.#add({ rows: chunk.subarray(0, end), memory: chunk });
  }

  /** Returns and forgets the beginning of an incomplete header, for whoever reads on from here. */
  takeHeader(): Buffer {
    const header = Buffer.from(this.#header.subarray(0, this.#headerFilled));
    this.#headerFilled = 0;
    return header;
  }

  /** Data messages that have begun. The server sends each row in one, and the end of a binary copy in another. */
  get messages(): number {
    return this.#messages;
  }

  /** Bytes in full blocks. */
  get blockBytes(): number {
    return this.#blockBytes;
  }

  /** Bytes in the block that is being filled. */
  get restBytes(): number {
    return this.#filled;
  }

  /** The oldest rows; null: there are none. They are the caller's until `releaseTaken`. */
  take(): Uint8Array | null {
    const block = this.#blocks.shift();
    if (block) this.#blockBytes -= block.rows.length;
    this.#taken = block ?? (this.#filled > 0 ? this.#takeRest() : null);
    return this.#taken?.rows ?? null;
  }

  /** Frees the rows that were taken last. */
  releaseTaken(): void {
    if (this.#taken) releaseBytes(this.#taken.memory);
    this.#taken = null;
  }

  #add(block: Block): void {
    this.#blocks.push(block);
    this.#blockBytes += block.rows.length;
  }

  #takeRest(): Block {
    const rest = this.#block.subarray(0, this.#filled);
    // The next rows go into the rest of the memory, unless that is small.
    this.#block = this.#block.subarray(this.#filled);
    if (this.#block.length < firstBlockBytes) this.#block = Buffer.alloc(0);
    this.#filled = 0;
    return { rows: rest, memory: rest };
  }

  /** Moves the rows of a chunk to its beginning. Returns their end. */
  #compact(chunk: Buffer): number {
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

  /** Returns the end of the header, or of the chunk. */
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

  /** Begins the message whose header is at `at`. */
  #begin(bytes: Buffer, at: number): void {
    this.#isData = bytes[at] === copyData;
    // Guards against a length that is smaller than the length field itself.
    this.#left = Math.max(0, bytes.readUInt32BE(at + 1) - (headerBytes - 1));
    if (this.#isData) this.#messages++;
    else this.onOther(Buffer.from(bytes.subarray(at, at + headerBytes)));
  }

  #append(chunk: Buffer, end: number): void {
    for (let at = 0; at < end; ) {
      if (this.#filled === this.#block.length) this.#beginBlock();
      const taken = chunk.copy(this.#block, this.#filled, at, end);
      this.#filled += taken;
      at += taken;
    }
  }

  #beginBlock(): void {
    if (this.#filled > 0) this.#add({ rows: this.#block, memory: this.#block });
    this.#block = Buffer.allocUnsafeSlow(this.#nextBytes);
    this.#nextBytes = Math.min(this.#nextBytes * 2, maxBlockBytes);
    this.#filled = 0;
  }
}
