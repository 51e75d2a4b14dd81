// The headers of messages: those that all messages of a table and operation share, in bytes, and the places of the others.

import { headerNames, newKeyHeader, oldKeyHeader } from "../../connector/config/kafka/debezium-headers.ts";
import type { KafkaMessages } from "../../connector/config/kafka/kafka-format.ts";
import { operationLetters } from "../format/operation-letters.ts";
import type { RowOperation } from "../format/row-encoder.ts";
import { ByteWriter } from "../format/values/byte-writer.ts";
import { varint } from "./client/record-batch.ts";

export interface HeaderSource {
  readonly connectorId: string;
  readonly database: string;
  readonly schema: string;
  readonly table: string;
}

type Header = readonly [name: string, value: string];

const encoder = new TextEncoder();
const uuidBytes = 36;
const mostVarintBytes = 5;

/** The headers of one table's messages. */
export class MessageHeaders {
  readonly hasIdempotencyKey: boolean;
  /** Of a change of the key: the other key is sent. */
  readonly hasOtherKey: boolean;
  readonly #shared: Readonly<Record<RowOperation, { readonly bytes: Uint8Array; readonly count: number }>>;
  readonly #idempotencyKey = named("Idempotency-Key");
  readonly #newKey = named(newKeyHeader);
  readonly #oldKey = named(oldKeyHeader);

  constructor({ headers }: Pick<KafkaMessages, "headers">, source: HeaderSource) {
    this.hasIdempotencyKey = headers === null;
    this.hasOtherKey = headers?.pk_update ?? true;
    const sharedBy = (letter: string) => {
      const shared = headers ? debeziumHeaders(headers, source, letter) : nativeHeaders(source);
      return { bytes: joined(shared), count: shared.length };
    };
    const { create, update, delete: removal, read, truncate } = operationLetters;
    this.#shared = {
      create: sharedBy(create),
      update: sharedBy(update),
      delete: sharedBy(removal),
      read: sharedBy(read),
      truncate: sharedBy(truncate),
    };
  }

  /** Writes the headers of a message. `otherKey`: of a change of the key, and whether it is the new one. */
  write(
    out: ByteWriter,
    operation: RowOperation,
    idempotencyKey: (out: ByteWriter) => void,
    otherKey: { readonly key: ByteWriter; readonly isNew: boolean } | null,
  ): void {
    const { bytes, count } = this.#shared[operation];
    const other = this.hasOtherKey ? otherKey : null;
    out.reserve(mostVarintBytes);
    varint(out, count + (this.hasIdempotencyKey ? 1 : 0) + (other ? 1 : 0));
    out.all(bytes);
    if (this.hasIdempotencyKey) {
      out.all(this.#idempotencyKey);
      out.reserve(mostVarintBytes);
      varint(out, uuidBytes);
      idempotencyKey(out);
    }
    if (!other) return;
    out.all(other.isNew ? this.#newKey : this.#oldKey);
    out.reserve(mostVarintBytes);
    varint(out, other.key.length);
    out.raw(other.key.bytes, 0, other.key.length);
  }
}

/** Headers with these names and values alone. */
export function plainHeaders(headers: readonly Header[]): ByteWriter {
  const out = new ByteWriter(64);
  varint(out, headers.length);
  out.all(joined(headers));
  return out;
}

function nativeHeaders({ schema, table }: HeaderSource): readonly Header[] {
  return [
    ["X-Source-Schema", schema],
    ["X-Source-Table", table],
  ];
}

function debeziumHeaders(
  headers: NonNullable<KafkaMessages["headers"]>,
  { connectorId, database, schema, table }: HeaderSource,
  op: string,
): readonly Header[] {
  const values = { op, db: database, schema, tbl: table, context: connectorId };
  const names = headerNames(headers);
  const switched = (["op", "db", "schema", "tbl", "context"] as const).flatMap((header): Header[] => {
    const name = names[header];
    return name === undefined ? [] : [[name, values[header]]];
  });
  const { source_name: name, source_template: template } = headers;
  if (name === undefined || template === undefined) return switched;
  const parts: Readonly<Record<string, string>> = { database, schema, table, connector: connectorId };
  const value = template.replaceAll(/\{(\w+)\}/g, (whole, part: string) => parts[part] ?? whole);
  return [...switched, [name, value]];
}

/** A header's name with its length. */
function named(name: string): Uint8Array {
  return counted(encoder.encode(name));
}

function joined(headers: readonly Header[]): Uint8Array {
  return Buffer.concat(headers.flatMap(([name, value]) => [named(name), counted(encoder.encode(value))]));
}

function counted(bytes: Uint8Array): Uint8Array {
  const out = new ByteWriter(bytes.length + mostVarintBytes);
  varint(out, bytes.length);
  out.all(bytes);
  return out.slice();
}
