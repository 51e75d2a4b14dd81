// Writes records into a batch as brokers store it (magic 2). A record is written once, where it stays until the batch is sent.
// https://kafka.apache.org/documentation/#recordbatch

import { compressionsAlgorithms, crc32c } from "@platformatic/kafka";
import { ByteWriter } from "../../format/values/byte-writer.ts";
import type { MessageRow } from "../parking/refused-records.ts";
import { toldKey } from "./told-key.ts";

export type Compression = "none" | "gzip" | "snappy" | "lz4" | "zstd";

/** Who sends a batch, and which of its partition's batches it is. */
export interface BatchProducer {
  readonly producerId: bigint;
  readonly epoch: number;
  /** Of the batch's first record; -1: the producer is not idempotent. */
  readonly sequence: number;
  readonly isTransactional: boolean;
}

/** Bytes before the records. */
const headBytes = 61;
/** Between the start and what the checksum covers: offset, length, leader epoch, magic, checksum. */
const checkedFrom = 21;
const transactionalFlag = 1 << 4;
/** A record's attributes and its time, which is the batch's. */
const recordStartBytes = 2;
/** Length, offset, and lengths of key and value. */
const mostLengthBytes = 20;

export class RecordBatch {
  readonly #out: ByteWriter;
  #count = 0;
  /** Of records that brokers may refuse, by place. Null: there are none. */
  #rows: Map<number, MessageRow> | null = null;

  /** `out`: an empty buffer, which is the batch's until `finish`. */
  constructor(out: ByteWriter = new ByteWriter()) {
    this.#out = out;
  }

  get count(): number {
    return this.#count;
  }

  /** Of the records, uncompressed. */
  get bytes(): number {
    return this.#out.length;
  }

  /** `headers`: their number, and each of them, as the format has it. Null: a key or a value that is null. */
  add(
    key: ByteWriter | null,
    value: ByteWriter | null,
    headers: ByteWriter,
    row: MessageRow | null = null,
  ): void {
    const out = this.#out;
    this.#keep(row);
    const keyBytes = key?.length ?? -1;
    const valueBytes = value?.length ?? -1;
    const lengths = varintBytes(keyBytes) + varintBytes(valueBytes);
    this.#begin(lengths + Math.max(keyBytes, 0) + Math.max(valueBytes, 0) + headers.length);
    varint(out, keyBytes);
    if (key) out.raw(key.bytes, 0, keyBytes);
    varint(out, valueBytes);
    if (value) out.raw(value.bytes, 0, valueBytes);
    out.raw(headers.bytes, 0, headers.length);
  }

  /** The row of the next record. */
  #keep(row: MessageRow | null): void {
    if (!row) return;
    this.#rows ??= new Map();
    this.#rows.set(this.#count, row);
  }

  /** `restBytes`: of the record, behind its offset. */
  #begin(restBytes: number): void {
    const out = this.#out;
    const body = recordStartBytes + varintBytes(this.#count) + restBytes;
    out.reserve(body + mostLengthBytes);
    varint(out, body);
    out.byte(0);
    out.byte(0);
    varint(out, this.#count);
    this.#count++;
  }

  /** The batch as it is sent. `timeMs`: of all its records. Can be made again, with another producer. */
  finish(producer: BatchProducer, compression: Compression, timeMs: number): Buffer {
    const plain = Buffer.from(this.#out.bytes.buffer, this.#out.bytes.byteOffset, this.#out.length);
    const { bitmask, compressSync } = compressionsAlgorithms[compression];
    const records = compression === "none" ? plain : compressSync(plain);
    const batch = Buffer.allocUnsafe(headBytes + records.length);
    batch.writeBigInt64BE(0n, 0);
    batch.writeInt32BE(batch.length - 12, 8);
    batch.writeInt32BE(-1, 12);
    batch.writeInt8(2, 16);
    batch.writeInt16BE(bitmask | (producer.isTransactional ? transactionalFlag : 0), 21);
    batch.writeInt32BE(this.#count - 1, 23);
    batch.writeBigInt64BE(BigInt(timeMs), 27);
    batch.writeBigInt64BE(BigInt(timeMs), 35);
    batch.writeBigInt64BE(producer.producerId, 43);
    batch.writeInt16BE(producer.epoch, 51);
    batch.writeInt32BE(producer.sequence, 53);
    batch.writeInt32BE(this.#count, 57);
    batch.set(records, headBytes);
    batch.writeUInt32BE(crc32c(batch.subarray(checkedFrom)), 17);
    return batch;
  }

  /** Of the first record; null: nothing was said of it. */
  get firstRow(): MessageRow | null {
    return this.#rows?.get(0) ?? null;
  }

  /** Of the first record, for people; null: it has none. */
  firstKey(): string | null {
    const read = { bytes: this.#out.bytes, at: 0 };
    readVarint(read);
    read.at += recordStartBytes;
    readVarint(read);
    const length = readVarint(read);
    return length < 0 ? null : toldKey(read.bytes.subarray(read.at, read.at + length));
  }

  /** The same records in two batches, of two records or more. This one stays as it is. */
  halves(): readonly [RecordBatch, RecordBatch] {
    const first = new RecordBatch();
    const second = new RecordBatch();
    const read = { bytes: this.#out.bytes, at: 0 };
    for (let i = 0; i < this.#count; i++) {
      const half = i < this.#count >> 1 ? first : second;
      const length = readVarint(read);
      const end = read.at + length;
      read.at += recordStartBytes;
      readVarint(read);
      half.#keep(this.#rows?.get(i) ?? null);
      half.#begin(end - read.at);
      half.#out.raw(read.bytes, read.at, end);
      read.at = end;
    }
    return [first, second];
  }

  /** Gives its buffer back. */
  release(): ByteWriter {
    this.#out.length = 0;
    return this.#out;
  }
}

/** Zigzag, as the format has lengths: -1 is one byte. */
function varintBytes(value: number): number {
  if (value < 64) return 1;
  if (value < 8_192) return 2;
  if (value < 1_048_576) return 3;
  return value < 134_217_728 ? 4 : 5;
}

function readVarint(from: { readonly bytes: Uint8Array; at: number }): number {
  let value = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = from.bytes[from.at++]!;
    value += (byte & 127) * scale;
    if (byte < 128) return value % 2 === 1 ? -1 : value / 2;
  }
}

/** `value`: -1, or a length below 2^31. Its space has been reserved. */
export function varint(out: ByteWriter, value: number): void {
  let rest = value < 0 ? 1 : value * 2;
  const { bytes } = out;
  while (rest > 127) {
    bytes[out.length++] = (rest & 127) | 128;
    rest = Math.floor(rest / 128);
  }
  bytes[out.length++] = rest;
}
