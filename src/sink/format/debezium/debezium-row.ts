// The Debezium format: the envelope of Debezium's Postgres connector around the row before and after the
// change.
// https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-change-events-value

import { UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import { type Relation, withoutDomain } from "../../../change/relation.ts";
import { schemaOpening } from "../connect-schema.ts";
import { operationBytes } from "../operation-letters.ts";
import type { RowContext, RowEncoder } from "../row-encoder.ts";
import type { ByteWriter } from "../values/byte-writer.ts";
import { writePacked } from "../values/packed-value.ts";
import type { TupleView } from "../values/tuple-view.ts";
import { unavailableText } from "../values/unavailable-value.ts";
import type { ValueWriter } from "../values/value-writer.ts";
import { type ColumnMapping, type DataTypeOptions, mapColumn } from "./debezium-column.ts";
import { envelopeSchema } from "./debezium-schema.ts";

export interface DebeziumRowOptions {
  /** The service's version, and the connector's id as the logical name of the source. */
  readonly version: string;
  readonly name: string;
  readonly database: string;
  readonly dataTypes: DataTypeOptions;
  /** False: an update has no `before`. A delete always has: nothing else tells which row it was. */
  readonly includeBefore: boolean;
  readonly embedSchema: boolean;
  /**
   * What stands for a TOASTed value that the source did not send: nothing, or a placeholder in columns that
   * are JSON strings.
   */
  readonly placeholder: boolean;
  /** Milliseconds since 1970-01-01 UTC. */
  readonly now: () => number;
}

const encoder = new TextEncoder();
const bytesOf = (text: string): Uint8Array => encoder.encode(text);

const nullBytes = bytesOf("null");
const beforeBytes = bytesOf('{"before":');
const afterBytes = bytesOf(',"after":');
const sourceEnd = bytesOf(',"xmin":null},"transaction":');
const noTransaction = bytesOf('null,"op":"');
const idBytes = bytesOf('{"id":"');
const totalOrder = bytesOf('","total_order":');
const tableOrder = bytesOf(',"data_collection_order":');
const transactionEnd = bytesOf('},"op":"');
const colon = ":".charCodeAt(0);

/** An update's old tuple that holds the key alone says nothing that `after` does not: Debezium leaves it out. */
export function hasBefore(
  before: TupleView,
  row: RowContext,
  { includeBefore }: Pick<DebeziumRowOptions, "includeBefore">,
): boolean {
  if (before.count === 0) return false;
  return row.operation === "delete" || (includeBefore && !row.oldIsKey);
}

export class DebeziumRowEncoder implements RowEncoder {
  readonly columnsAt: readonly (readonly string[])[];
  readonly #names: readonly Uint8Array[];
  readonly #writers: readonly ValueWriter[];
  readonly #placeholders: readonly (Uint8Array | null)[];
  /** `{"schema":…,"payload":`, or nothing. */
  readonly #opening: Uint8Array;
  /** `,"source":{…,"ts_ms":` */
  readonly #source: string;
  readonly #database: string;
  readonly #table: string;
  readonly #written = { commitLsn: zeroLsn as Lsn, commitTimeUs: -1, snapshot: false };
  #commit: Uint8Array = bytesOf("0");
  /** Of the source, what is before a row's own place, and what is between the two. */
  #beforePlace: Uint8Array = new Uint8Array();
  #behindPlace: Uint8Array = new Uint8Array();
  #nowMs = -1;
  /** `","ts_ms":` and what is behind it. */
  #ending: Uint8Array = new Uint8Array();

  constructor(
    relation: Relation,
    private readonly options: DebeziumRowOptions,
  ) {
    const mappings = relation.columns.map((column) => mapColumn(withoutDomain(column), options.dataTypes));
    this.#names = relation.columns.map(({ name }) => bytesOf(`${JSON.stringify(name)}:`));
    this.#writers = mappings.map(({ write }) => write);
    this.#placeholders = mappings.map((mapping) => (options.placeholder ? placeholderOf(mapping) : null));
    this.columnsAt = ["after", "before"].map((row) => (options.embedSchema ? ["payload", row] : [row]));
    const schema = options.embedSchema ? envelopeSchema(options.name, relation, mappings) : null;
    this.#opening = bytesOf(schema ? schemaOpening(schema) : "");
    const head = `"version":${JSON.stringify(options.version)},"connector":"postgresql"`;
    this.#source = `,"source":{${head},"name":${JSON.stringify(options.name)},"ts_ms":`;
    this.#database = `,"db":${JSON.stringify(options.database)}`;
    this.#table = `,"schema":${JSON.stringify(relation.schema)},"table":${JSON.stringify(relation.name)}`;
  }

  writeRow(out: ByteWriter, arena: Uint8Array, before: TupleView, after: TupleView, row: RowContext): void {
    out.all(this.#opening);
    out.all(beforeBytes);
    if (hasBefore(before, row, this.options)) this.#columns(out, arena, before);
    else out.all(nullBytes);
    out.all(afterBytes);
    if (after.count > 0) this.#columns(out, arena, after);
    else out.all(nullBytes);
    this.#writeSource(out, row);
    out.byte(operationBytes[row.operation]);
    const nowMs = this.options.now();
    if (nowMs !== this.#nowMs) this.#endAt(nowMs);
    out.all(this.#ending);
  }

  /** Many rows are made within a millisecond. */
  #endAt(nowMs: number): void {
    this.#nowMs = nowMs;
    const close = this.options.embedSchema ? "}}" : "}";
    this.#ending = bytesOf(`","ts_ms":${nowMs},"ts_us":${nowMs * 1000},"ts_ns":${nowMs}000000${close}`);
  }

  #writeSource(out: ByteWriter, row: RowContext): void {
    const { commitLsn, commitTimeUs, snapshot } = this.#written;
    const isSame = row.commitLsn === commitLsn && row.commitTimeUs === commitTimeUs;
    if (!isSame || row.snapshot !== snapshot) this.#enter(row);
    out.all(this.#beforePlace);
    this.#writePlace(out, row);
    out.all(this.#behindPlace);
    this.#writePlace(out, row);
    out.all(sourceEnd);
    this.#writeTransaction(out, row, this.#commit);
  }

  /** What the rows of a transaction share. */
  #enter({ commitLsn, commitTimeUs, snapshot, xid }: RowContext): void {
    Object.assign(this.#written, { commitLsn, commitTimeUs, snapshot });
    this.#commit = bytesOf(String(commitLsn));
    const times = `${Math.floor(commitTimeUs / 1000)},"ts_us":${commitTimeUs},"ts_ns":${commitTimeUs}000`;
    // Debezium's first is the commit before, which a stream that goes on in its middle does not know: this one orders rows as well.
    const sequence = `"sequence":"[\\"${commitLsn}\\",\\"`;
    this.#beforePlace = bytesOf(
      `${this.#source}${times},"snapshot":"${snapshot}"${this.#database},${sequence}`,
    );
    this.#behindPlace = bytesOf(`\\"]"${this.#table},"txId":${snapshot ? "null" : xid},"lsn":`);
  }

  #writeTransaction(out: ByteWriter, row: RowContext, commit: Uint8Array): void {
    if (row.totalOrder === 0) {
      out.all(noTransaction);
      return;
    }
    out.all(idBytes);
    out.digits(row.xid);
    out.byte(colon);
    out.all(commit);
    out.all(totalOrder);
    out.digits(row.totalOrder);
    out.all(tableOrder);
    out.digits(row.tableOrder);
    out.all(transactionEnd);
  }

  #writePlace(out: ByteWriter, { place }: RowContext): void {
    if (place > 0) out.digits(place);
    else out.all(this.#commit);
  }

  #columns(out: ByteWriter, arena: Uint8Array, tuple: TupleView): void {
    let separator = 123;
    for (let c = 0; c < tuple.count; c++) {
      const start = tuple.starts[c]!;
      const length = tuple.lengths[c]!;
      const placeholder = this.#placeholders[c]!;
      if (length === UNCHANGED_LENGTH && placeholder === null) continue;
      out.byte(separator);
      separator = 44;
      out.all(this.#names[c]!);
      const write = this.#writers[c]!;
      if (length >= 0 && tuple.packed.includes(c)) writePacked(write, out, arena, start, start + length);
      else if (length >= 0) write(out, arena, start, start + length);
      else out.all(length === UNCHANGED_LENGTH ? placeholder! : nullBytes);
    }
    if (separator === 123) out.byte(123);
    out.byte(125);
  }
}

/** The placeholder as the column's writer would write it; null for columns that are no JSON strings. */
function placeholderOf({ schema }: ColumnMapping): Uint8Array | null {
  if (schema.type === "bytes" && schema.name === undefined) {
    return bytesOf(JSON.stringify(bytesOf(unavailableText).toBase64()));
  }
  return schema.type === "string" ? bytesOf(JSON.stringify(unavailableText)) : null;
}
