// Parses COPY … TO STDOUT in text form into change batches of kind `read`. Pure: no stream, no connection.
// https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

import { MillraceError } from "../errors/millrace-error.ts";
import { releaseBytes } from "../memory/release-bytes.ts";
import { type ChangeBatch, ChangeKind, NULL_LENGTH } from "./change-batch.ts";
import { HexPacking, hexPrefixBytes, looksPackable, packedFromBytes } from "./hex-packing.ts";
import type { Lsn } from "./lsn.ts";
import { packedFlag } from "./packed-hex.ts";
import { qualifiedName, type Relation } from "./relation.ts";

const tab = 9;
const newline = 10;
const backslash = 92;

const defaultBatchBytes = 1024 * 1024;
/** Input that is parsed between two checks of the arena's free space. */
const sliceBytes = 64 * 1024;
/** The most that so much input becomes: a newline alone, the row of one empty column, becomes 6 bytes of tuple. */
const maxTupleBytes = (bytes: number): number => bytes * 6 + 16;

/** While the arena grows, its content is in memory twice. Untouched memory costs nothing: a long row gets much of it at once. */
const longRowBytes = 16 * 1024 * 1024;
const grownBytes = (bytes: number): number => bytes * (bytes < longRowBytes ? 2 : 16);

/** The parser's state within an escape sequence, because a chunk may end anywhere. */
const Escape = { none: 0, backslash: 1, octal: 2, hex: 3 } as const;

const hexDigit = (byte: number): number => {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
};

const controlEscapes: ReadonlyMap<number, number> = new Map([
  [98, 8], // \b
  [102, 12], // \f
  [110, 10], // \n
  [114, 13], // \r
  [116, 9], // \t
  [118, 11], // \v
]);

/** The snapshot's consistent point. Every row carries it as its transaction. */
export interface CopyPoint {
  readonly lsn: Lsn;
  /** Microseconds since 1970-01-01 UTC. */
  readonly timeUs: bigint;
}

/**
 * Turns chunks of any size into batches of about `batchBytes` of arena. A larger row becomes a batch of its own. Throws
 * `protocol_violation` when a row's column count is not the relation's.
 */
export class CopyTextParser {
  readonly #columns: number;
  #arena: Uint8Array<ArrayBuffer>;
  #end = 0;
  #rowStarts: number[] = [];
  #rowEnds: number[] = [];
  /** Start of the open row in the arena, or -1 between rows. */
  #row = -1;
  /** Start of the open field's length in the arena. */
  #field = 0;
  #fields = 0;
  #isNull = false;
  /** Set while the open field is large and may be bytea. */
  #packing: HexPacking | null = null;
  #escape: number = Escape.none;
  #digits = 0;
  #code = 0;
  #copied = 0;

  constructor(
    private readonly relation: Relation,
    private readonly point: CopyPoint,
    private readonly batchBytes: number = defaultBatchBytes,
    private readonly packedFrom: number = packedFromBytes,
  ) {
    this.#columns = relation.columns.length;
    this.#arena = new Uint8Array(sliceBytes);
  }

  /** A row that is longer than a batch is being read. */
  get isInLongRow(): boolean {
    return this.#end >= longRowBytes;
  }

  /** Takes a chunk and returns the batches that became full. */
  push(chunk: Uint8Array): ChangeBatch[] {
    const batches: ChangeBatch[] = [];
    for (let at = 0; at < chunk.length; at += sliceBytes) {
      this.#parse(chunk, at, Math.min(at + sliceBytes, chunk.length));
      if (this.#row >= 0) this.#pack();
      if (this.#end >= this.batchBytes && this.#rowEnds.length > 0) batches.push(this.#take());
    }
    return batches;
  }

  /** Returns the remaining rows, after the last chunk. Throws `protocol_violation` within a row. */
  finish(): ChangeBatch | null {
    if (this.#row >= 0) throw this.#violation("the copy ended within a row");
    return this.#rowEnds.length > 0 ? this.#take() : null;
  }

  #parse(chunk: Uint8Array, from: number, to: number): void {
    this.#reserve(maxTupleBytes(to - from));
    let i = from;
    while (i < to) {
      if (this.#row < 0) this.#beginRow();
      if (this.#escape === Escape.none) {
        const arena = this.#arena; // The end of a large field may have replaced it.
        let end = this.#end;
        for (; i < to; i++) {
          const byte = chunk[i]!;
          if (byte === tab || byte === newline || byte === backslash) break;
          arena[end++] = byte;
        }
        this.#end = end;
        if (i === to) return;
      }
      this.#special(chunk[i++]!);
    }
  }

  /** A separator, a backslash, or a byte within an escape. */
  #special(byte: number): void {
    switch (this.#escape) {
      case Escape.backslash:
        this.#afterBackslash(byte);
        return;
      case Escape.octal:
        if (this.#digits < 3 && byte >= 48 && byte <= 55) {
          this.#code = (this.#code * 8 + byte - 48) & 255;
          this.#digits++;
          return;
        }
        this.#endCode(byte);
        return;
      case Escape.hex: {
        const digit = this.#digits < 2 ? hexDigit(byte) : -1;
        if (digit >= 0) {
          this.#code = this.#code * 16 + digit;
          this.#digits++;
          return;
        }
        if (this.#digits === 0) this.#code = 120; // `\x` without digits is an x
        this.#endCode(byte);
        return;
      }
      default:
        if (byte === tab) this.#endField();
        else if (byte === newline) this.#endRow();
        else if (byte === backslash) this.#escape = Escape.backslash;
        else this.#put(byte);
    }
  }

  #afterBackslash(byte: number): void {
    this.#escape = Escape.none;
    if (byte === 78 && this.#end === this.#field + 4) {
      this.#isNull = true; // \N alone in its field
    } else if (byte >= 48 && byte <= 55) {
      this.#escape = Escape.octal;
      this.#code = byte - 48;
      this.#digits = 1;
    } else if (byte === 120) {
      this.#escape = Escape.hex;
      this.#code = 0;
      this.#digits = 0;
    } else {
      this.#put(controlEscapes.get(byte) ?? byte);
    }
  }

  /** Writes the byte that the digits name, then handles the byte that ended them. */
  #endCode(next: number): void {
    this.#escape = Escape.none;
    this.#put(this.#code);
    this.#special(next);
  }

  #put(byte: number): void {
    this.#arena[this.#end++] = byte;
  }

  #beginRow(): void {
    this.#row = this.#end;
    this.#fields = 0;
    this.#arena[this.#end++] = this.#columns >> 8;
    this.#arena[this.#end++] = this.#columns & 255;
    this.#beginField();
  }

  #beginField(): void {
    this.#field = this.#end;
    this.#end += 4;
    this.#isNull = false;
    this.#packing = null;
  }

  /** Packs what has arrived of the open field, where it is large. */
  #pack(): void {
    const valueAt = this.#field + 4;
    if (this.#packing === null) {
      if (this.#end - valueAt < this.packedFrom || !looksPackable(this.#arena, valueAt)) return;
      this.#packing = new HexPacking();
    }
    if (this.#packing.isText) return;
    // The value may still prove not to be bytea: leave space to unpack it, and for the rest of the slice behind it.
    this.#reserve(this.#packing.packed + hexPrefixBytes + maxTupleBytes(sliceBytes));
    this.#end = this.#packing.pack(this.#arena, valueAt, this.#end, this.#end);
  }

  /** The length of the ending field, as stored. Equal rows get equal tuples, however the chunks were cut. */
  #closedLength(): number {
    if (this.#isNull) return NULL_LENGTH;
    this.#pack();
    const valueAt = this.#field + 4;
    const packing = this.#packing;
    if (packing === null || packing.isText) return this.#end - valueAt;
    if (this.#end === valueAt + packing.packed) return packing.packed | packedFlag;
    // A single digit is left over: not the text of bytea.
    this.#end = packing.unpack(this.#arena, valueAt, this.#end);
    return this.#end - valueAt;
  }

  #closeField(): void {
    const length = this.#closedLength();
    const at = this.#field;
    this.#arena[at] = length >>> 24;
    this.#arena[at + 1] = (length >>> 16) & 255;
    this.#arena[at + 2] = (length >>> 8) & 255;
    this.#arena[at + 3] = length & 255;
    this.#fields++;
  }

  #endField(): void {
    this.#closeField();
    this.#beginField();
  }

  #endRow(): void {
    // A table without columns is copied as empty lines: what looks like one empty field is none.
    if (this.#columns === 0 && this.#fields === 0 && this.#end === this.#field + 4) this.#end = this.#field;
    else this.#closeField();
    if (this.#fields !== this.#columns) throw this.#violation(`a row has ${this.#fields} columns`);
    this.#rowStarts.push(this.#row);
    this.#rowEnds.push(this.#end);
    this.#row = -1;
  }

  #reserve(bytes: number): void {
    const needed = this.#end + bytes;
    if (needed <= this.#arena.length) return;
    const length = Math.max(needed, grownBytes(this.#arena.length));
    const grown = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer as ArrayBuffer);
    grown.set(this.#arena.subarray(0, this.#end));
    releaseBytes(this.#arena);
    this.#arena = grown;
  }

  /** A batch of all complete rows. The beginning of the open row moves to a new arena. */
  #take(): ChangeBatch {
    const whole = this.#rowEnds[this.#rowEnds.length - 1] ?? 0;
    const batch = this.#batch();
    const rest = this.#arena.subarray(whole, this.#end);
    // The next batch is about as large: growing to that size by doubling would copy most of it twice.
    const likeThis = whole < this.batchBytes ? sliceBytes : Math.min(this.#arena.length, 2 * this.batchBytes);
    const length = Math.max(rest.length, likeThis);
    this.#arena = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer as ArrayBuffer);
    this.#arena.set(rest);
    this.#end = rest.length;
    this.#field -= whole;
    if (this.#row >= 0) this.#row -= whole;
    this.#rowStarts = [];
    this.#rowEnds = [];
    return batch;
  }

  #batch(): ChangeBatch {
    const [starts, ends] = [Uint32Array.from(this.#rowStarts), Uint32Array.from(this.#rowEnds)];
    const count = starts.length;
    const ordinal = new Uint32Array(count);
    for (let i = 0; i < count; i++) ordinal[i] = this.#copied + i;
    this.#copied += count;
    return {
      form: "text",
      count,
      relations: [this.relation],
      arena: this.#arena,
      kind: new Uint8Array(count).fill(ChangeKind.read),
      flags: new Uint8Array(count),
      relation: new Uint32Array(count),
      transaction: new Uint32Array(count),
      ordinal,
      oldStart: new Uint32Array(count),
      oldEnd: new Uint32Array(count),
      newStart: starts,
      newEnd: ends,
      transactions: {
        count: 1,
        commitLsn: BigUint64Array.of(this.point.lsn),
        endLsn: BigUint64Array.of(this.point.lsn),
        commitTimeUs: BigInt64Array.of(this.point.timeUs),
        xid: new Uint32Array(1),
      },
      endsInTransaction: false,
      resumeLsn: this.point.lsn,
    };
  }

  #violation(what: string): MillraceError {
    const table = qualifiedName(this.relation);
    return new MillraceError("protocol_violation", `COPY of ${table}: ${what}, not ${this.#columns}`);
  }
}
