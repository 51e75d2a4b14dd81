// Reads Confluent's wire format with another implementation of Avro. Longs become bigints, so that no digit is lost.

import { Type, types } from "avsc";

const bigLong = types.LongType.__with({
  fromBuffer: (bytes: Buffer) => bytes.readBigInt64LE(),
  toBuffer: (value: bigint) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(value);
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === "bigint",
  compare: (a: bigint, b: bigint) => (a === b ? 0 : a < b ? -1 : 1),
} as unknown as Parameters<typeof types.LongType.__with>[0]);

/** The type of a schema's JSON. */
export function avroType(schema: string): Type {
  return Type.forSchema(JSON.parse(schema), {
    wrapUnions: "never",
    typeHook: (part) => (isLong(part) ? bigLong : undefined),
  });
}

function isLong(schema: unknown): boolean {
  return (
    (typeof schema === "object" && schema !== null && "type" in schema ? schema.type : schema) === "long"
  );
}

export interface AvroMessage {
  readonly id: number;
  readonly value: unknown;
}

/** Throws where bytes are left over. `reader`: the schema to read it by, where that is not the writer's. */
export function decodeMessage(bytes: Uint8Array, writer: Type, reader: Type = writer): AvroMessage {
  const buffer = Buffer.from(bytes);
  if (buffer[0] !== 0) throw new Error(`magic byte ${buffer[0]}`);
  const resolver = reader === writer ? undefined : reader.createResolver(writer);
  return { id: buffer.readUInt32BE(1), value: reader.fromBuffer(buffer.subarray(5), resolver) };
}
