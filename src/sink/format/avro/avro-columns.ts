// Writes columns of a tuple as the fields of an Avro record.
//
// A value that cannot be given is null: one that the Avro type cannot hold, and a TOASTed value that the source did not send. Avro cannot
// leave a field out, so where the field is a string, bytes, or an array of these, it holds Debezium's placeholder instead, whatever
// `toast_mode` says: null would read as a value that was removed. A key's field is not optional; what has no value there is refused.

import { NULL_LENGTH, UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { hexDigits } from "../../../change/packed-hex.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { ConnectSchema } from "../connect-schema.ts";
import { ByteWriter } from "../values/byte-writer.ts";
import type { TupleView } from "../values/tuple-view.ts";
import { unavailableText } from "../values/unavailable-value.ts";
import { writeLong } from "./avro-long.ts";
import { writeBytes, writeLengthAndBytes, writeString } from "./avro-value.ts";
import { type AvroWriter, isNull, isValue } from "./avro-writer.ts";

/** How a column is written; `schema.optional` is the field's. */
export interface AvroColumn {
  readonly write: AvroWriter;
  readonly schema: ConnectSchema;
}

export class AvroColumns {
  readonly #writers: readonly AvroWriter[];
  readonly #isOptional: readonly boolean[];
  readonly #placeholders: readonly (Uint8Array | null)[];

  /** `columns`: those of the relation, in its order. */
  constructor(
    private readonly relation: Relation,
    columns: readonly AvroColumn[],
    /** A value of the column is null in the message, as the Avro type cannot hold it. */
    private readonly nulled: (column: number) => void = () => {},
  ) {
    this.#writers = columns.map(({ write }) => write);
    this.#isOptional = columns.map(({ schema }) => schema.optional);
    this.#placeholders = columns.map(({ schema }) => placeholderOf(schema));
  }

  /** Writes all columns. */
  writeAll(out: ByteWriter, arena: Uint8Array, tuple: TupleView): void {
    const count = this.#writers.length;
    for (let c = 0; c < count; c++) this.#write(out, arena, tuple, c);
  }

  /** Writes the columns of these indexes, in this order. */
  writeSome(out: ByteWriter, arena: Uint8Array, tuple: TupleView, columns: readonly number[]): void {
    for (let i = 0; i < columns.length; i++) this.#write(out, arena, tuple, columns[i]!);
  }

  #write(out: ByteWriter, arena: Uint8Array, tuple: TupleView, c: number): void {
    const length = c < tuple.count ? tuple.lengths[c]! : NULL_LENGTH;
    if (length < 0) {
      this.#writeAbsent(out, length, c);
      return;
    }
    const at = out.length;
    if (this.#isOptional[c]) out.byte(isValue);
    const start = tuple.starts[c]!;
    const isPacked = tuple.packed.length > 0 && tuple.packed.includes(c);
    const write = this.#writers[c]!;
    const isWritten = isPacked
      ? writePacked(write, out, arena, start, start + length)
      : write(out, arena, start, start + length);
    if (isWritten) return;
    out.length = at;
    if (!this.#isOptional[c]) throw this.#refusal(c, "a value that its Avro type cannot hold");
    this.nulled(c);
    out.byte(isNull);
  }

  #writeAbsent(out: ByteWriter, length: number, c: number): void {
    const placeholder = length === UNCHANGED_LENGTH ? this.#placeholders[c]! : null;
    if (placeholder !== null) {
      if (this.#isOptional[c]) out.byte(isValue);
      out.all(placeholder);
    } else if (this.#isOptional[c]) out.byte(isNull);
    else throw this.#refusal(c, "no value");
  }

  #refusal(c: number, what: string): MillraceError {
    const column = JSON.stringify(this.relation.columns[c]!.name);
    const text = `${qualifiedName(this.relation)}: the key's column ${column} has ${what}, and the field of a key cannot be null.`;
    return new MillraceError(
      "kafka_key_unwritable",
      `${text} A numeric that is NaN or infinite needs decimal_handling_mode String.`,
    );
  }
}

/** Writes what `write` would of the text of the packed value `source[start, end)`. */
function writePacked(
  write: AvroWriter,
  out: ByteWriter,
  source: Uint8Array,
  start: number,
  end: number,
): boolean {
  if (write === writeBytes) {
    writeLengthAndBytes(out, source, start, end);
    return true;
  }
  const text = new ByteWriter(2 + 2 * (end - start));
  text.byte(92);
  text.byte(120);
  for (const digits of hexDigits(source, start, end)) text.all(digits);
  return write(out, text.bytes, 0, text.length);
}

/** Null: the type cannot hold it. */
function placeholderOf(schema: ConnectSchema): Uint8Array | null {
  const out = new ByteWriter(64);
  if (!isTextual(schema.type === "array" ? schema.items! : schema)) return null;
  if (schema.type === "array") {
    // One block of one item, which is a value.
    writeLong(out, 1);
    out.byte(isValue);
  }
  writeString(out, unavailableText);
  if (schema.type === "array") out.byte(0);
  return out.slice();
}

/** A native document is text in Avro. */
function isTextual({ type, name }: ConnectSchema): boolean {
  return type === "string" || type === "json" || (type === "bytes" && name === undefined);
}
