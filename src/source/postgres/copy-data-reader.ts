// Finds the rows of a COPY TO STDOUT in the bytes of its socket, and packs them into blocks. The server sends each row as a message
// of its own; an object for each of millions would cost more than to read and to write it. What is not CopyData goes to pg as it came.
// https://www.postgresql.org/docs/current/protocol-message-formats.html (CopyData)

const copyData = 0x64;
/** Type and length of a message. */
const headerBytes = 5;
/** Small tables are many. */
const firstBlockBytes = 16 * 1024;
const largestBlockBytes = 256 * 1024;

export class CopyDataReader {
  /** Full ones, in order. */
  readonly #blocks: Uint8Array[] = [];
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

  /** The chunk is free for use afterwards. */
  push(chunk: Buffer): void {
    let at = this.#passOn(chunk, 0);
    while (at < chunk.length) {
      at = this.#readWhole(chunk, at);
      at = this.#readHeader(chunk, at);
      at = this.#passOn(chunk, at);
    }
  }

  /** Messages of data that have begun: the server sends each row in one, and the end of a binary copy in another. */
  get messages(): number {
    return this.#messages;
  }

  /** Blocks that are full. */
  get blocks(): number {
    return this.#blocks.length;
  }

  /** Bytes that are in no full block yet. */
  get restBytes(): number {
    return this.#filled;
  }

  /** The oldest bytes, or null when there are none. The caller's to keep. */
  take(): Uint8Array | null {
    const block = this.#blocks.shift();
    if (block) return block;
    if (this.#filled === 0) return null;
    const rest = this.#block.subarray(0, this.#filled);
    // The rows that follow go into what is left of the memory, unless that is little.
    this.#block = this.#block.subarray(this.#filled);
    if (this.#block.length < firstBlockBytes) this.#block = Buffer.alloc(0);
    this.#filled = 0;
    return rest;
  }

  /** Rows that lie in the chunk as a whole: nearly all. Returns where they end. */
  #readWhole(chunk: Buffer, from: number): number {
    const end = chunk.length;
    let at = from;
    while (at + headerBytes <= end && chunk[at] === copyData) {
      const next = at + 1 + chunk.readUInt32BE(at + 1);
      if (next > end) break;
      this.#append(chunk, at + headerBytes, next);
      this.#messages++;
      at = next;
    }
    return at;
  }

  #readHeader(chunk: Buffer, from: number): number {
    const taken = chunk.copy(this.#header, this.#headerFilled, from);
    this.#headerFilled += taken;
    if (this.#headerFilled < headerBytes) return from + taken;
    this.#headerFilled = 0;
    this.#isData = this.#header[0] === copyData;
    this.#left = this.#header.readUInt32BE(1) - (headerBytes - 1);
    if (this.#isData) this.#messages++;
    else this.onOther(Buffer.from(this.#header));
    return from + taken;
  }

  /** What has come of the message that is on its way. */
  #passOn(chunk: Buffer, from: number): number {
    const end = Math.min(chunk.length, from + this.#left);
    if (end === from) return from;
    this.#left -= end - from;
    if (this.#isData) this.#append(chunk, from, end);
    else this.onOther(Buffer.from(chunk.subarray(from, end)));
    return end;
  }

  #append(chunk: Buffer, from: number, end: number): void {
    for (let at = from; at < end; ) {
      if (this.#filled === this.#block.length) this.#turnOver();
      const taken = chunk.copy(this.#block, this.#filled, at, end);
      this.#filled += taken;
      at += taken;
    }
  }

  #turnOver(): void {
    if (this.#filled > 0) this.#blocks.push(this.#block);
    this.#block = Buffer.allocUnsafeSlow(this.#nextBytes);
    this.#nextBytes = Math.min(this.#nextBytes * 2, largestBlockBytes);
    this.#filled = 0;
  }
}
