// What begins each message in Confluent's wire format: a zero byte, and the id of the schema, big-endian.
// https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format

export function wireHeader(schemaId: number): Uint8Array {
  const header = new Uint8Array(5);
  new DataView(header.buffer).setUint32(1, schemaId);
  return header;
}
