// Messages that say where a transaction of the source begins and where it ends, as JSON or as Avro.
// https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-transaction-metadata

import { boundarySchema, type TransactionBoundary } from "../delivery/stream/transaction-counts.ts";
import { writeLong } from "../format/avro/avro-long.ts";
import { type AvroSchema, avroSchema } from "../format/avro/avro-schema.ts";
import { wireHeader } from "../format/avro/wire-header.ts";
import { type ConnectSchema, connectField, schemaOpening } from "../format/connect-schema.ts";
import type { ByteWriter } from "../format/values/byte-writer.ts";

export interface BoundaryEncoder {
  writeKey(out: ByteWriter, boundary: TransactionBoundary): void;
  writeValue(out: ByteWriter, boundary: TransactionBoundary): void;
}

type Part = BoundaryEncoder["writeKey"];

const keySchema: ConnectSchema = {
  type: "struct",
  optional: false,
  name: "io.debezium.connector.common.TransactionMetadataKey",
  version: 1,
  fields: [connectField("id", "string", false)],
};

export const boundaryKeySchema: AvroSchema = avroSchema(keySchema);
export const boundaryValueSchema: AvroSchema = avroSchema(boundarySchema);

const encoder = new TextEncoder();
/** Of the union `["null", T]`. */
const isNull = 0;
const isValue = 1;

export function jsonBoundaryKey(embedSchema: boolean): Part {
  const opening = embedSchema ? schemaOpening(keySchema) : "";
  const closing = embedSchema ? "}" : "";
  return (out, { metadata }) =>
    out.all(encoder.encode(`${opening}${JSON.stringify({ id: metadata.id })}${closing}`));
}

/** As the delivery has made it. */
export const jsonBoundaryValue: Part = (out, { body }) => out.all(body);

export function avroBoundaryKey(schemaId: number): Part {
  const header = wireHeader(schemaId);
  return (out, { metadata }) => {
    out.all(header);
    writeText(out, metadata.id);
  };
}

export function avroBoundaryValue(schemaId: number): Part {
  const header = wireHeader(schemaId);
  return (out, { metadata }) => {
    const { status, id, event_count: count, data_collections: collections, ts_ms: timeMs } = metadata;
    out.all(header);
    writeText(out, status);
    writeText(out, id);
    writeLong(out, count === null ? isNull : isValue);
    if (count !== null) writeLong(out, count);
    writeLong(out, collections === null ? isNull : isValue);
    if (collections !== null) {
      if (collections.length > 0) writeLong(out, collections.length);
      for (const { data_collection: name, event_count: ofTable } of collections) {
        writeText(out, name);
        writeLong(out, ofTable);
      }
      // No more blocks of items.
      writeLong(out, 0);
    }
    writeLong(out, timeMs);
  };
}

function writeText(out: ByteWriter, text: string): void {
  const bytes = encoder.encode(text);
  writeLong(out, bytes.length);
  out.all(bytes);
}
