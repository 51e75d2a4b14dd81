// The key of a message: the columns of the row's key, in its order. The JSON form is here, Avro's in avro/.

import { type Relation, withoutDomain } from "../../change/relation.ts";
import { schemaOpening } from "./connect-schema.ts";
import { type DataTypeOptions, mapColumn } from "./debezium/debezium-column.ts";
import { keySchema } from "./key-schema.ts";
import { nativeColumnSchema } from "./native-schema.ts";
import type { ByteWriter } from "./values/byte-writer.ts";
import { valueWriter } from "./values/json-value.ts";
import { writePacked } from "./values/packed-value.ts";
import type { TupleView } from "./values/tuple-view.ts";
import type { ValueWriter } from "./values/value-writer.ts";

export interface KeyEncoder {
  /** Writes the key of the row in tuple. */
  writeKey(out: ByteWriter, arena: Uint8Array, tuple: TupleView): void;
}

export interface JsonKeyOptions {
  /** As `{"schema":…,"payload":…}`. */
  readonly embedSchema: boolean;
  /** The connector's name: what the schema's name begins with. */
  readonly schemaPrefix: string;
  /** How Debezium's format writes values; absent: as the native format does. */
  readonly dataTypes?: DataTypeOptions;
}

const encoder = new TextEncoder();
const nullBytes = encoder.encode("null");

/** For a relation that has a key. */
export class JsonKeyEncoder implements KeyEncoder {
  readonly #key: readonly number[];
  /** `{"name":` or `,"name":`, one for each column of the key. */
  readonly #names: readonly Uint8Array[];
  readonly #writers: readonly ValueWriter[];
  /** `{"schema":…,"payload":`, or nothing. */
  readonly #opening: Uint8Array;
  readonly #closing: Uint8Array;

  constructor(relation: Relation, { embedSchema, schemaPrefix, dataTypes }: JsonKeyOptions) {
    const mappings = relation.columns.map(withoutDomain).map((column) => {
      if (dataTypes) return mapColumn(column, dataTypes);
      return { write: valueWriter(column), schema: nativeColumnSchema(column) };
    });
    const schemas = mappings.map(({ schema }) => schema);
    this.#key = relation.key;
    this.#names = relation.key.map((index, i) =>
      encoder.encode(`${i === 0 ? "{" : ","}${JSON.stringify(relation.columns[index]!.name)}:`),
    );
    this.#writers = relation.key.map((index) => mappings[index]!.write);
    this.#opening = encoder.encode(
      embedSchema ? schemaOpening(keySchema(schemaPrefix, relation, schemas)) : "",
    );
    this.#closing = encoder.encode(embedSchema ? "}}" : "}");
  }

  writeKey(out: ByteWriter, arena: Uint8Array, tuple: TupleView): void {
    out.all(this.#opening);
    for (let i = 0; i < this.#key.length; i++) {
      const c = this.#key[i]!;
      const start = tuple.starts[c]!;
      const end = start + tuple.lengths[c]!;
      out.all(this.#names[i]!);
      if (c >= tuple.count || end < start) out.all(nullBytes);
      else if (tuple.packed.includes(c)) writePacked(this.#writers[i]!, out, arena, start, end);
      else this.#writers[i]!(out, arena, start, end);
    }
    out.all(this.#closing);
  }
}
