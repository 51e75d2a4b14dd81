// Rows as Avro in Confluent's wire format. The schemas come first: a registry gives them ids, and an encoder is made for an id. Pure.
//
// Evolution: all fields but the key's are optional with default null, NOT NULL columns too, as in the Connect schemas of both formats. So a
// registry whose rule is BACKWARD (or FORWARD, or FULL) takes a schema with a column more or less. It refuses a column that joins the key
// or changes to a type that Avro does not widen to: those are other records, for which the topic needs another subject or rule.

import { type Relation, withoutDomain } from "../../../change/relation.ts";
import type { ConnectSchema } from "../connect-schema.ts";
import { mapColumn } from "../debezium/debezium-column.ts";
import { envelopeSchema } from "../debezium/debezium-schema.ts";
import type { KeyEncoder } from "../key-encoder.ts";
import { isKeyMissing, keySchema } from "../key-schema.ts";
import { nativeColumnSchema, nativeSchema } from "../native-schema.ts";
import type { RowEncoder } from "../row-encoder.ts";
import { type AvroColumn, AvroColumns } from "./avro-columns.ts";
import { AvroKeyEncoder } from "./avro-key.ts";
import { type AvroSchema, avroSchema } from "./avro-schema.ts";
import { nativeAvroWriter } from "./avro-value.ts";
import { DebeziumAvroEncoder, type DebeziumAvroOptions } from "./debezium-avro-row.ts";
import { debeziumAvroWriter } from "./debezium-avro-value.ts";
import { NativeAvroEncoder } from "./native-avro-row.ts";

export type AvroFormat =
  /** `schemaPrefix`: the connector's name, which names of records begin with. */
  | { readonly kind: "native"; readonly schemaPrefix: string }
  /** `options.name` is the prefix. */
  | { readonly kind: "debezium"; readonly options: DebeziumAvroOptions };

export interface AvroEncoding {
  readonly value: AvroSchema;
  /** Null: the relation has no key. */
  readonly key: AvroSchema | null;
  /** `schemaId`: what the registry calls `value`. */
  encoder(schemaId: number): RowEncoder;
  /** `schemaId`: what the registry calls `key`, which there must be. */
  keyEncoder(schemaId: number): KeyEncoder;
}

/** `nulled`: hears of each value that is null in a message, as the column's Avro type cannot hold it. */
export function avroEncoding(
  relation: Relation,
  format: AvroFormat,
  nulled?: (column: number) => void,
): AvroEncoding {
  switch (format.kind) {
    case "native":
      return nativeEncoding(relation, format.schemaPrefix, nulled);
    case "debezium":
      return debeziumEncoding(relation, format.options, nulled);
    default:
      return format satisfies never;
  }
}

function nativeEncoding(relation: Relation, prefix: string, nulled?: (column: number) => void): AvroEncoding {
  const columns = relation.columns.map((column) => ({
    write: nativeAvroWriter(column),
    schema: nativeColumnSchema(withoutDomain(column)),
  }));
  const encoded = withOptional(relation, columns, nulled);
  return {
    value: avroSchema(nativeSchema(prefix, withRequiredKey(relation))),
    ...keyEncoding(prefix, relation, columns, encoded),
    encoder: (schemaId) => new NativeAvroEncoder(schemaId, encoded),
  };
}

function debeziumEncoding(
  relation: Relation,
  options: DebeziumAvroOptions,
  nulled?: (column: number) => void,
): AvroEncoding {
  const mappings = relation.columns.map((column) => mapColumn(withoutDomain(column), options.dataTypes));
  const columns = mappings.map(({ schema }, index) => ({
    write: debeziumAvroWriter(withoutDomain(relation.columns[index]!), schema, options.dataTypes),
    schema,
  }));
  const encoded = withOptional(relation, columns, nulled);
  return {
    value: avroSchema(envelopeSchema(options.name, withRequiredKey(relation), mappings)),
    ...keyEncoding(options.name, relation, columns, encoded),
    encoder: (schemaId) => new DebeziumAvroEncoder(schemaId, relation, encoded, options),
  };
}

function keyEncoding(
  prefix: string,
  relation: Relation,
  columns: readonly { readonly schema: ConnectSchema }[],
  encoded: AvroColumns,
): Pick<AvroEncoding, "key" | "keyEncoder"> {
  const schemas = columns.map(({ schema }) => schema);
  return {
    key: relation.key.length > 0 ? avroSchema(keySchema(prefix, relation, schemas)) : null,
    keyEncoder: (schemaId) => new AvroKeyEncoder(schemaId, encoded, relation.key),
  };
}

/** With the fields' word on which of them may be null, which `keySchema` and the rows' schemas share. */
function withOptional(
  relation: Relation,
  columns: readonly AvroColumn[],
  nulled?: (column: number) => void,
): AvroColumns {
  const { key } = withRequiredKey(relation);
  return new AvroColumns(
    relation,
    columns.map(({ write, schema }, index) => ({
      write,
      schema: { ...schema, optional: !key.includes(index) },
    })),
    nulled,
  );
}

/** The relation with those columns as its key that always have a value: JSON can hold null in a field that is not optional, Avro cannot. */
function withRequiredKey(relation: Relation): Relation {
  return isKeyMissing(relation) ? { ...relation, key: [] } : relation;
}
