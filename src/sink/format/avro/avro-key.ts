// The key of a message in Avro: a record of the key's columns, in its order.

import type { KeyEncoder } from "../key-encoder.ts";
import type { ByteWriter } from "../values/byte-writer.ts";
import type { TupleView } from "../values/tuple-view.ts";
import type { AvroColumns } from "./avro-columns.ts";
import { wireHeader } from "./wire-header.ts";

export class AvroKeyEncoder implements KeyEncoder {
  readonly #header: Uint8Array;

  /** `key`: indexes of the relation's columns. */
  constructor(
    schemaId: number,
    private readonly columns: AvroColumns,
    private readonly key: readonly number[],
  ) {
    this.#header = wireHeader(schemaId);
  }

  writeKey(out: ByteWriter, arena: Uint8Array, tuple: TupleView): void {
    out.all(this.#header);
    this.columns.writeSome(out, arena, tuple, this.key);
  }
}
