// The keys of messages of tables whose key is `id`, in JSON and in Avro.

/** What a key ends with. The beginning is that of JSON, or names a schema. */
export function keyEndings(id: number): readonly Uint8Array[] {
  return [Buffer.from(`{"id":${id}}`), avroLong(id)];
}

/** https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format */
const avroHeaderBytes = 5;

export function idOfKey(key: Uint8Array): number {
  if (key[0] !== 0) return (JSON.parse(Buffer.from(key).toString()) as { id: number }).id;
  let zigzag = 0n;
  key.subarray(avroHeaderBytes).forEach((byte, index) => {
    zigzag |= BigInt(byte & 127) << BigInt(index * 7);
  });
  return Number(zigzag >> 1n);
}

/** Of a number that is not negative: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding */
function avroLong(value: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = BigInt(value) << 1n; ; rest >>= 7n) {
    if (rest < 128n) return Uint8Array.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
