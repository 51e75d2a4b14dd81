// Makes a request's Idempotency-Key: a UUIDv7 (RFC 9562, section 5.7) whose time is the first row's commit
// time and whose other 74 bits are a SHA-256 over the table and, for each row, its identity, commit time
// and place in its transaction. The same rows in the same request give the same key for ever.

import { hashInto, textBytes } from "../../change/packed-hex.ts";
import { ByteWriter } from "./values/byte-writer.ts";
import type { TupleView } from "./values/tuple-view.ts";

/** Material is hashed in pieces of about this size, so that rows of any size need no more memory. */
const pieceBytes = 32 * 1024;
/** A column's bytes above this go to the hash directly. */
const largeColumnBytes = 8 * 1024;

/** What a row is of a change: all of it, or one of the two rows that a change of the key makes; or what else it is. Keys hold the numbers: they stay. */
export const RowPart = {
  whole: 0,
  keyRemoved: 1,
  keyAdded: 2,
  snapshot: 3,
  truncate: 4,
  transactionBegin: 5,
  transactionEnd: 6,
  replay: 7,
} as const;
export type RowPart = (typeof RowPart)[keyof typeof RowPart];

/** When and where a row was changed. */
export interface RowMoment {
  /** Microseconds since 1970-01-01 UTC. */
  readonly commitTimeUs: number;
  /**
   * Index in its transaction; of a snapshot's row: which of the equal rows it is, 0 when the table has a
   * key; of a replay's row: what tells the replay from others.
   */
  readonly ordinal: number;
  readonly part: RowPart;
}

/**
 * Where a digest is written before it becomes a key. A `CryptoHasher` asks for 64 bytes, whatever its
 * algorithm.
 */
const digest = new Uint8Array(64);

export class IdempotencyKey {
  /** Made when the material is more than one piece. */
  #hasher: Bun.CryptoHasher | null = null;
  readonly #piece = new ByteWriter(256);
  #timeMs = -1;

  /** `table`: what `tableMaterial` made. */
  constructor(table: Uint8Array) {
    this.begin(table);
  }

  /** Begins another key, with the memory of the one before. */
  begin(table: Uint8Array): void {
    this.#hasher = null;
    this.#piece.length = 0;
    this.#timeMs = -1;
    this.#piece.all(table);
  }

  /** Adds a row by its identity: the bytes of `columns` in the tuple that `view` stands on. */
  addRow(arena: Uint8Array, view: TupleView, columns: readonly number[], moment: RowMoment): void {
    if (this.#timeMs < 0) this.#timeMs = Math.floor(moment.commitTimeUs / 1000);
    const piece = this.#piece;
    piece.reserve(13);
    this.#word(Math.floor(moment.commitTimeUs / 4294967296));
    this.#word(moment.commitTimeUs);
    this.#word(moment.ordinal);
    piece.byte(moment.part);
    for (const column of columns) {
      const length = view.lengths[column]!;
      if (view.packed.includes(column)) {
        this.#packed(arena.subarray(view.starts[column]!, view.starts[column]! + length));
        continue;
      }
      this.#word(length);
      if (length > largeColumnBytes) {
        this.#flush().update(arena.subarray(view.starts[column]!, view.starts[column]! + length));
      } else if (length > 0) {
        piece.raw(arena, view.starts[column]!, view.starts[column]! + length);
      }
    }
    if (piece.length > pieceBytes) this.#flush();
  }

  /** The key. At least one row must have been added, and none may be added afterwards. */
  finish(): string {
    this.#digest();
    return uuidV7(this.#timeMs, digest);
  }

  /** As `finish`: writes the key's text at the end of `out`. */
  finishInto(out: ByteWriter): void {
    this.#digest();
    out.reserve(uuidLength);
    writeUuidV7(this.#timeMs, digest, out.bytes, out.length);
    out.length += uuidLength;
  }

  #digest(): void {
    if (this.#hasher) this.#flush().digest(digest);
    // A copy: a view would give the small array a buffer of its own, which takes longer.
    else Bun.SHA256.hash(this.#piece.slice(), digest);
  }

  /** As its text, which it is in another message. */
  #packed(bytes: Uint8Array): void {
    const value = { bytes, isPacked: true };
    this.#word(textBytes(value));
    hashInto(this.#flush(), value);
  }

  #word(value: number): void {
    const piece = this.#piece;
    piece.reserve(4);
    const at = piece.length;
    piece.bytes[at] = value >>> 24;
    piece.bytes[at + 1] = (value >>> 16) & 255;
    piece.bytes[at + 2] = (value >>> 8) & 255;
    piece.bytes[at + 3] = value & 255;
    piece.length = at + 4;
  }

  #flush(): Bun.CryptoHasher {
    this.#hasher ??= new Bun.CryptoHasher("sha256");
    if (this.#piece.length > 0) this.#hasher.update(this.#piece.bytes.subarray(0, this.#piece.length));
    this.#piece.length = 0;
    return this.#hasher;
  }
}

/** What of a key tells tables apart. */
export function tableMaterial(schema: string, table: string): Uint8Array {
  const encoder = new TextEncoder();
  const material = [schema, table].flatMap((text) => {
    const name = encoder.encode(text);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(name.length);
    return [length, name];
  });
  return Buffer.concat(material);
}

/** The UUIDv7 of a time in ms and of the first 74 bits of `random`. */
export function uuidV7(timeMs: number, random: Uint8Array): string {
  writeUuidV7(timeMs, random, uuidText, 0);
  return uuidText.toString("latin1");
}

const uuid = new Uint8Array(16);
const uuidLength = 36;
/** Its text is made of these bytes at once: texts that are joined take twice the time, and stay as parts in memory. */
const uuidText = Buffer.alloc(uuidLength);
const hexDigits = new TextEncoder().encode("0123456789abcdef");
const hyphen = 45;

/** Writes the 36 bytes of its text into `bytes`. */
function writeUuidV7(timeMs: number, random: Uint8Array, bytes: Uint8Array, start: number): void {
  let rest = Math.max(timeMs, 0);
  for (let i = 5; i >= 0; i--) {
    uuid[i] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  for (let i = 0; i < 10; i++) uuid[6 + i] = random[i]!;
  uuid[6] = 0x70 | (uuid[6]! & 0x0f);
  uuid[8] = 0x80 | (uuid[8]! & 0x3f);
  let at = start;
  for (let i = 0; i < uuid.length; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) bytes[at++] = hyphen;
    const byte = uuid[i]!;
    bytes[at++] = hexDigits[byte >>> 4]!;
    bytes[at++] = hexDigits[byte & 15]!;
  }
}
