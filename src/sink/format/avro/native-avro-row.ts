// The native format in Avro: a record of the columns, `_sm_version` and `_sm_deleted`.

import type { RowContext, RowEncoder } from "../row-encoder.ts";
import type { ByteWriter } from "../values/byte-writer.ts";
import type { TupleView } from "../values/tuple-view.ts";
import type { AvroColumns } from "./avro-columns.ts";
import { writeLong } from "./avro-long.ts";
import { wireHeader } from "./wire-header.ts";

export class NativeAvroEncoder implements RowEncoder {
  readonly #header: Uint8Array;

  constructor(
    schemaId: number,
    private readonly columns: AvroColumns,
  ) {
    this.#header = wireHeader(schemaId);
  }

  writeRow(out: ByteWriter, arena: Uint8Array, before: TupleView, after: TupleView, row: RowContext): void {
    const isDeleted = row.operation === "delete";
    out.all(this.#header);
    this.columns.writeAll(out, arena, isDeleted ? before : after);
    writeLong(out, row.version);
    out.byte(isDeleted ? 1 : 0);
  }
}
