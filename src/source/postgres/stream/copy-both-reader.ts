// Finds the messages of a replication stream in the bytes of its socket, and reads them in place: a view or a string
// for each of millions of small messages would cost more than decoding them. What is not stream data is passed on to pg
// unchanged.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-START-REPLICATION

import { type Lsn, lsn } from "../../../change/lsn.ts";
import type { ValuePacker } from "./value-packer.ts";

export interface StreamHandlers {
  /** One pgoutput message, `bytes[at, end)`. The memory is reused after the call. */
  onMessage(bytes: Buffer, at: number, end: number): void;
  /**
   * A large message, in memory that the handler may keep and overwrite. At least `largeMessagePadding` free bytes lie
   * before `at`.
   */
  onLargeMessage(bytes: Buffer, at: number, end: number): void;
  /** The server's log ends at `walEnd`, and everything before it has been sent. */
  onKeepalive(walEnd: Lsn, replyRequested: boolean): void;
  /** A complete message of another kind. */
  onOther(bytes: Buffer): void;
}

/**
 * The decoder builds tuples in the memory of their message, beginning in the padding before it. The padding is large
 * enough that writing never overtakes reading: for each of 1,600 columns in two tuples, a null takes three bytes more
 * in a tuple than in a message, and a hash takes 64 bytes more than the value it replaces.
 */
export const largeMessagePadding = 256 * 1024;

const copyData = 0x64;
const xLogData = 0x77;
const keepalive = 0x6b;
/** Tag and length of a message. */
const headerBytes = 5;
/** The part of XLogData before its payload: tag, start and end of the log, time. */
const xLogHeaderBytes = 25;

/**
 * The LSN of the change in the message at `at`, as a number: exact up to eight petabytes of log. 0: it has none, or the
 * message has no header before it.
 */
export function changeLsnAt(bytes: Buffer, at: number): number {
  if (at < xLogHeaderBytes) return 0;
  const start = at - xLogHeaderBytes + 1;
  return bytes.readUInt32BE(start) * 2 ** 32 + bytes.readUInt32BE(start + 4);
}

export class CopyBothReader {
  /** The beginning of an incomplete message. */
  #rest = Buffer.alloc(0);
  #restEnd = 0;
  /**
   * A large message that is being received, behind its padding; the end of what has arrived, and how much is missing.
   */
  #large: Buffer | null = null;
  #largeEnd = 0;
  #largeLeft = 0;
  #packer: ValuePacker | null = null;

  constructor(
    private readonly handlers: StreamHandlers,
    /** Makes the packer for the values of a large message; null: they stay as they are. */
    private readonly makePacker: () => ValuePacker | null,
    /** A message above this size gets memory of its own, of exactly its size, so that it can stay there. */
    private readonly largeBytes = 1024 * 1024,
  ) {}

  push(chunk: Buffer): void {
    const at = this.#fillLarge(chunk);
    if (at === chunk.length) return;
    if (this.#restEnd === 0) {
      this.#keep(chunk, this.#read(chunk, at, chunk.length), chunk.length);
      return;
    }
    this.#append(chunk);
    const end = this.#restEnd;
    const read = this.#read(this.#rest, 0, end);
    if (read > 0 || this.#isLarge(this.#rest, 0, end)) this.#keep(this.#rest, read, end);
  }

  /** Copies what the chunk has of the large message. Returns the number of bytes taken. */
  #fillLarge(chunk: Buffer): number {
    const large = this.#large;
    if (large === null) return 0;
    const taken = Math.min(chunk.length, this.#largeLeft);
    chunk.copy(large, this.#largeEnd, 0, taken);
    this.#largeEnd += taken;
    this.#largeLeft -= taken;
    this.#pack(large);
    if (this.#largeLeft === 0) {
      this.#large = null;
      this.#message(large, largeMessagePadding, this.#largeEnd, true);
    }
    return taken;
  }

  #pack(large: Buffer): void {
    const payload = largeMessagePadding + headerBytes;
    const at = payload + xLogHeaderBytes;
    if (this.#packer === null || this.#largeEnd <= at) return;
    if (large[largeMessagePadding] !== copyData || large[payload] !== xLogData) this.#packer = null;
    else this.#largeEnd = this.#packer.pack(large, at, this.#largeEnd);
  }

  /** Handles the complete messages of `bytes[from, end)`. Returns where they end. */
  #read(bytes: Buffer, from: number, end: number): number {
    let at = from;
    while (at + headerBytes <= end) {
      const next = at + 1 + bytes.readUInt32BE(at + 1);
      if (next > end) break;
      this.#message(bytes, at, next);
      at = next;
    }
    return at;
  }

  #message(bytes: Buffer, at: number, end: number, isOwn = false): void {
    const payload = at + headerBytes;
    const { handlers } = this;
    if (bytes[at] !== copyData) handlers.onOther(Buffer.from(bytes.subarray(at, end)));
    else if (bytes[payload] === xLogData) {
      if (isOwn) handlers.onLargeMessage(bytes, payload + xLogHeaderBytes, end);
      else handlers.onMessage(bytes, payload + xLogHeaderBytes, end);
    } else if (bytes[payload] === keepalive) {
      handlers.onKeepalive(lsn(bytes.readBigUInt64BE(payload + 1)), bytes[payload + 17] === 1);
    }
  }

  /** Keeps `bytes[from, end)` until the rest of the message arrives. */
  #keep(bytes: Buffer, from: number, end: number): void {
    const length = end - from;
    if (this.#isLarge(bytes, from, end)) {
      this.#begin(bytes, from, end);
      return;
    }
    if (length > this.#rest.length || this.#rest.length > 4 * Math.max(length, 256 * 1024)) {
      const rest = Buffer.allocUnsafeSlow(Math.max(length, 128 * 1024));
      bytes.copy(rest, 0, from, end);
      this.#rest = rest;
    } else if (length > 0) {
      bytes.copy(this.#rest, 0, from, end);
    }
    this.#restEnd = length;
  }

  /** The message's size is known: growing a buffer step by step would copy it again and again. */
  #begin(bytes: Buffer, from: number, end: number): void {
    const length = 1 + bytes.readUInt32BE(from + 1);
    const large = Buffer.allocUnsafeSlow(largeMessagePadding + length);
    this.#largeEnd = largeMessagePadding + bytes.copy(large, largeMessagePadding, from, end);
    this.#largeLeft = length - (end - from);
    this.#large = large;
    this.#packer = this.makePacker();
    this.#pack(large);
    this.#restEnd = 0;
  }

  #append(chunk: Buffer): void {
    const end = this.#restEnd + chunk.length;
    if (end > this.#rest.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(end, this.#rest.length * 2));
      this.#rest.copy(grown, 0, 0, this.#restEnd);
      this.#rest = grown;
    }
    chunk.copy(this.#rest, this.#restEnd);
    this.#restEnd = end;
  }

  /** Whether a large message begins at `from`; its bytes up to `end` have arrived. */
  #isLarge(bytes: Buffer, from: number, end: number): boolean {
    return end - from >= headerBytes && bytes.readUInt32BE(from + 1) >= this.largeBytes;
  }
}
