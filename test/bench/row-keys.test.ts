// How the Kafka benchmarks find a row by the key of its message.

import { expect, test } from "bun:test";
import { idOfKey, keyEndings } from "../../bench/kafka/row-keys.ts";
import { writeLong } from "../../src/sink/format/avro/avro-long.ts";
import { ByteWriter } from "../../src/sink/format/values/byte-writer.ts";

const schemaId = [0, 0, 0, 0, 7];

test.each([0, 1, 63, 64, 1_000, 999_999, 1_764_000_000_000])("the key of row %d", (id) => {
  const out = new ByteWriter();
  writeLong(out, id);
  const avro = Buffer.from([...schemaId, ...out.slice()]);
  const json = Buffer.from(`{"id":${id}}`);
  const [jsonEnding, avroEnding] = keyEndings(id);
  expect(Buffer.from(jsonEnding ?? [])).toEqual(json);
  expect(Buffer.from(avroEnding ?? [])).toEqual(avro.subarray(schemaId.length));
  expect([json, avro].map(idOfKey)).toEqual([id, id]);
});
