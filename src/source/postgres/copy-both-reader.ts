// Finds the messages of a replication stream in the bytes of its socket. It reads them where they lie: a view or a string for
// each of millions of small messages would cost more than decoding them. What is not stream data goes to pg as it came.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-START-REPLICATION

import { type Lsn, lsn } from "../../change/lsn.ts";

export interface StreamHandlers {
  /** One pgoutput message, `bytes[at, end)`: memory that is used again. */
  onMessage(bytes: Buffer, at: number, end: number): void;
  /** The server's log ends here, and all before it has been sent. */
  onKeepalive(walEnd: Lsn, replyRequested: boolean): void;
  /** A whole message of another kind. */
  onOther(bytes: Buffer): void;
}

const copyData = 0x64;
const xLogData = 0x77;
const keepalive = 0x6b;
/** Type and length of a message. */
const headerBytes = 5;
/** Of XLogData before its payload: kind, start and end of the log, time. */
const xLogHeaderBytes = 25;

export class CopyBothReader {
  /** The beginning of a message whose end has not come. */
  #rest = Buffer.alloc(0);
  #restEnd = 0;

  constructor(private readonly handlers: StreamHandlers) {}

  push(chunk: Buffer): void {
    if (this.#restEnd === 0) {
      this.#keep(chunk, this.#read(chunk, chunk.length), chunk.length);
      return;
    }
    this.#append(chunk);
    const end = this.#restEnd;
    const read = this.#read(this.#rest, end);
    if (read > 0) this.#keep(this.#rest, read, end);
  }

  /** Handles the whole messages of `bytes[0, end)`. Returns where they end. */
  #read(bytes: Buffer, end: number): number {
    let at = 0;
    while (at + headerBytes <= end) {
      const next = at + 1 + bytes.readUInt32BE(at + 1);
      if (next > end) break;
      this.#message(bytes, at, next);
      at = next;
    }
    return at;
  }

  #message(bytes: Buffer, at: number, end: number): void {
    const payload = at + headerBytes;
    if (bytes[at] !== copyData) this.handlers.onOther(Buffer.from(bytes.subarray(at, end)));
    else if (bytes[payload] === xLogData) this.handlers.onMessage(bytes, payload + xLogHeaderBytes, end);
    else if (bytes[payload] === keepalive) {
      this.handlers.onKeepalive(lsn(bytes.readBigUInt64BE(payload + 1)), bytes[payload + 17] === 1);
    }
  }

  /** Remembers `bytes[from, end)`. */
  #keep(bytes: Buffer, from: number, end: number): void {
    const length = end - from;
    if (length > this.#rest.length || this.#rest.length > 4 * Math.max(length, 256 * 1024)) {
      const rest = Buffer.allocUnsafeSlow(Math.max(length, 128 * 1024));
      bytes.copy(rest, 0, from, end);
      this.#rest = rest;
    } else if (length > 0) {
      bytes.copy(this.#rest, 0, from, end);
    }
    this.#restEnd = length;
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
}
