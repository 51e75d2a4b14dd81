// The native format: a row is its columns, `_sm_version` and `_sm_deleted`.

import { UNCHANGED_LENGTH } from "../../change/change-batch.ts";
import { type Relation, withoutDomain } from "../../change/relation.ts";
import { schemaOpening } from "./connect-schema.ts";
import { nativeSchema } from "./native-schema.ts";
import type { RowContext, RowEncoder } from "./row-encoder.ts";
import type { ByteWriter } from "./values/byte-writer.ts";
import { valueWriter } from "./values/json-value.ts";
import { writePacked } from "./values/packed-value.ts";
import type { TupleView } from "./values/tuple-view.ts";
import { isStringType, unavailableValue } from "./values/unavailable-value.ts";
import type { ValueWriter } from "./values/value-writer.ts";

const encoder = new TextEncoder();
const nullBytes = encoder.encode("null");
const versionBytes = encoder.encode('"_sm_version":');
const liveBytes = encoder.encode(',"_sm_deleted":false}');
const deletedBytes = encoder.encode(',"_sm_deleted":true}');

export interface NativeRowOptions {
  /**
   * What stands for a TOASTed value that the source did not send: nothing, or a placeholder in string
   * columns.
   */
  readonly placeholder: boolean;
  /** The connector's name, where a schema is embedded in each row; null: none is. */
  readonly schemaPrefix?: string | null;
}

export class NativeRowEncoder implements RowEncoder {
  readonly columnsAt: readonly (readonly string[])[];
  /** `"name":`, one for each column. */
  readonly #names: readonly Uint8Array[];
  readonly #writers: readonly ValueWriter[];
  readonly #placeholders: readonly boolean[];
  /** `{"schema":…,"payload":`, or nothing. */
  readonly #opening: Uint8Array;
  readonly #closing: Uint8Array;

  constructor(relation: Relation, options: NativeRowOptions) {
    const columns = relation.columns.map(withoutDomain);
    this.#names = relation.columns.map((column) => encoder.encode(`${JSON.stringify(column.name)}:`));
    this.#writers = columns.map(valueWriter);
    this.#placeholders = columns.map((column) => options.placeholder && isStringType(column));
    const prefix = options.schemaPrefix ?? null;
    this.columnsAt = [prefix === null ? [] : ["payload"]];
    this.#opening = encoder.encode(prefix === null ? "" : schemaOpening(nativeSchema(prefix, relation)));
    this.#closing = encoder.encode(prefix === null ? "" : "}");
  }

  writeRow(out: ByteWriter, arena: Uint8Array, before: TupleView, after: TupleView, row: RowContext): void {
    const deleted = row.operation === "delete";
    out.all(this.#opening);
    out.byte(123);
    this.#columns(out, arena, deleted ? before : after);
    out.all(versionBytes);
    out.digits(row.version);
    out.all(deleted ? deletedBytes : liveBytes);
    out.all(this.#closing);
  }

  /** Each column, followed by a comma. */
  #columns(out: ByteWriter, arena: Uint8Array, tuple: TupleView): void {
    const names = this.#names;
    const writers = this.#writers;
    for (let c = 0; c < tuple.count; c++) {
      const start = tuple.starts[c]!;
      const length = tuple.lengths[c]!;
      if (length === UNCHANGED_LENGTH && !this.#placeholders[c]) continue;
      out.all(names[c]!);
      if (length >= 0 && tuple.packed.includes(c))
        writePacked(writers[c]!, out, arena, start, start + length);
      else if (length >= 0) writers[c]!(out, arena, start, start + length);
      else out.all(length === UNCHANGED_LENGTH ? unavailableValue : nullBytes);
      out.byte(44);
    }
  }
}
