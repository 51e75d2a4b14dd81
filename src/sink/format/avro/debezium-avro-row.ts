// The Debezium format in Avro: the envelope of debezium-row.ts, field for field in the order of its schema, debezium-schema.ts.

import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { type DebeziumRowOptions, hasBefore } from "../debezium/debezium-row.ts";
import { operationBytes } from "../operation-letters.ts";
import type { RowContext, RowEncoder } from "../row-encoder.ts";
import { ByteWriter } from "../values/byte-writer.ts";
import type { TupleView } from "../values/tuple-view.ts";
import type { AvroColumns } from "./avro-columns.ts";
import { writeBigLong, writeLong } from "./avro-long.ts";
import { writeString } from "./avro-value.ts";
import { isNull, isValue } from "./avro-writer.ts";
import { wireHeader } from "./wire-header.ts";

/** As of the JSON form. */
export type DebeziumAvroOptions = Omit<DebeziumRowOptions, "embedSchema" | "placeholder">;

const colon = ":".charCodeAt(0);
/** `"]`, behind a row's place in `source.sequence`. */
const sequenceEnd = new TextEncoder().encode('"]');
const lengthOfOne = 2;

export class DebeziumAvroEncoder implements RowEncoder {
  readonly #header: Uint8Array;
  readonly #written = { commitLsn: zeroLsn as Lsn, commitTimeUs: -1, snapshot: false };
  /** `commitLsn` in digits, and as a long. */
  #commitDigits: Uint8Array = new Uint8Array();
  #commitLong: Uint8Array = new Uint8Array();
  /** Of the source, what is before the row's place in `sequence`; its last bytes are that text's length, still 0, and `["1234","`. */
  #beforeDigits: Uint8Array = new Uint8Array();
  #sequenceStartBytes = 0;
  /** What is between `sequence` and `lsn`. */
  #beforePlace: Uint8Array = new Uint8Array();
  #nowMs = -1;
  #ending: Uint8Array = new Uint8Array();

  constructor(
    schemaId: number,
    private readonly relation: Relation,
    private readonly columns: AvroColumns,
    private readonly options: DebeziumAvroOptions,
  ) {
    this.#header = wireHeader(schemaId);
  }

  writeRow(out: ByteWriter, arena: Uint8Array, before: TupleView, after: TupleView, row: RowContext): void {
    out.all(this.#header);
    this.#writeTuple(out, arena, before, hasBefore(before, row, this.options));
    this.#writeTuple(out, arena, after, after.count > 0);
    this.#writeSource(out, row);
    this.#writeTransaction(out, row);
    out.byte(lengthOfOne);
    out.byte(operationBytes[row.operation]);
    const nowMs = this.options.now();
    if (nowMs !== this.#nowMs) this.#endAt(nowMs);
    out.all(this.#ending);
  }

  #writeTuple(out: ByteWriter, arena: Uint8Array, tuple: TupleView, isThere: boolean): void {
    out.byte(isThere ? isValue : isNull);
    if (isThere) this.columns.writeAll(out, arena, tuple);
  }

  /** Many rows are made within a millisecond. */
  #endAt(nowMs: number): void {
    this.#nowMs = nowMs;
    this.#ending = written((out) => {
      out.byte(isValue);
      writeTimes(out, nowMs, nowMs * 1000);
    });
  }

  #writeSource(out: ByteWriter, row: RowContext): void {
    const { commitLsn, commitTimeUs, snapshot } = this.#written;
    const isSame = row.commitLsn === commitLsn && row.commitTimeUs === commitTimeUs;
    if (!isSame || row.snapshot !== snapshot) this.#enter(row);
    out.all(this.#beforeDigits);
    // Two numbers of at most twenty digits, and seven characters: the length takes one byte.
    const lengthAt = out.length - this.#sequenceStartBytes - 1;
    if (row.place > 0) out.digits(row.place);
    else out.all(this.#commitDigits);
    out.all(sequenceEnd);
    out.bytes[lengthAt] = (out.length - lengthAt - 1) << 1;
    out.all(this.#beforePlace);
    if (row.place > 0) writeLong(out, row.place);
    else out.all(this.#commitLong);
    // xmin
    out.byte(isNull);
  }

  /** What the rows of a transaction share. */
  #enter({ commitLsn, commitTimeUs, snapshot, xid }: RowContext): void {
    Object.assign(this.#written, { commitLsn, commitTimeUs, snapshot });
    const { version, name, database } = this.options;
    const encoder = new TextEncoder();
    this.#commitDigits = encoder.encode(String(commitLsn));
    this.#commitLong = written((out) => writeBigLong(out, commitLsn));
    // Debezium's first is the commit before: as of the JSON form, this one's.
    const sequenceStart = encoder.encode(`["${commitLsn}","`);
    this.#sequenceStartBytes = sequenceStart.length;
    this.#beforeDigits = written((out) => {
      for (const text of [version, "postgresql", name]) writeString(out, text);
      writeTimes(out, Math.floor(commitTimeUs / 1000), commitTimeUs);
      out.byte(isValue);
      writeString(out, String(snapshot));
      writeString(out, database);
      out.byte(isValue);
      out.byte(0);
      out.all(sequenceStart);
    });
    this.#beforePlace = written((out) => {
      writeString(out, this.relation.schema);
      writeString(out, this.relation.name);
      out.byte(snapshot ? isNull : isValue);
      if (!snapshot) writeLong(out, xid);
      out.byte(isValue);
    });
  }

  #writeTransaction(out: ByteWriter, row: RowContext): void {
    if (row.totalOrder === 0) {
      out.byte(isNull);
      return;
    }
    out.byte(isValue);
    const lengthAt = out.length;
    out.byte(0);
    out.digits(row.xid);
    out.byte(colon);
    out.all(this.#commitDigits);
    out.bytes[lengthAt] = (out.length - lengthAt - 1) << 1;
    writeLong(out, row.totalOrder);
    writeLong(out, row.tableOrder);
  }
}

function written(write: (out: ByteWriter) => void): Uint8Array {
  const out = new ByteWriter(64);
  write(out);
  return out.slice();
}

/** `ts_ms`, and the optional `ts_us` and `ts_ns`. */
function writeTimes(out: ByteWriter, ms: number, us: number): void {
  writeLong(out, ms);
  out.byte(isValue);
  writeLong(out, us);
  out.byte(isValue);
  writeBigLong(out, BigInt(us) * 1000n);
}
