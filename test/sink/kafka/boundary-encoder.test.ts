import { expect, test } from "bun:test";
import avsc from "avsc";
import { lsn } from "../../../src/change/lsn.ts";
import type { TransactionBoundary } from "../../../src/sink/delivery/stream/transaction-counts.ts";
import { TransactionCounts } from "../../../src/sink/delivery/stream/transaction-counts.ts";
import { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import {
  avroBoundaryKey,
  avroBoundaryValue,
  boundaryKeySchema,
  boundaryValueSchema,
  jsonBoundaryKey,
  jsonBoundaryValue,
} from "../../../src/sink/kafka/boundary-encoder.ts";

function boundaries(): TransactionBoundary[] {
  const sent: TransactionBoundary[] = [];
  const options = { schema: "k", table: "transaction", isBare: true, embedSchema: false };
  const counts = new TransactionCounts(options, null);
  const submit = (boundary: TransactionBoundary) => void sent.push(boundary);
  counts.enter({ commitLsn: lsn(77n), commitTimeUs: 1_795_000_000_123_456, xid: 9 }, submit);
  for (const table of ["public.a", "public.b", "public.a"]) counts.count(table);
  counts.end(submit);
  return sent;
}

function written(write: (out: ByteWriter, boundary: TransactionBoundary) => void, of: TransactionBoundary) {
  const out = new ByteWriter();
  write(out, of);
  return Buffer.from(out.slice());
}

test("a transaction's beginning and end are the same in Avro as in JSON", () => {
  const sent = boundaries();
  expect(sent).toHaveLength(2);
  const key = avsc.Type.forSchema(JSON.parse(boundaryKeySchema.text));
  const value = avsc.Type.forSchema(JSON.parse(boundaryValueSchema.text));
  for (const boundary of sent) {
    const json = JSON.parse(written(jsonBoundaryValue, boundary).toString());
    const bytes = written(avroBoundaryValue(7), boundary);
    expect([...bytes.subarray(0, 5)]).toEqual([0, 0, 0, 0, 7]);
    expect(JSON.parse(JSON.stringify(value.fromBuffer(bytes.subarray(5))))).toEqual(json);
    const jsonKey = JSON.parse(written(jsonBoundaryKey(false), boundary).toString());
    expect(jsonKey).toEqual({ id: "9:77" });
    const avroKey = key.fromBuffer(written(avroBoundaryKey(8), boundary).subarray(5));
    expect(JSON.parse(JSON.stringify(avroKey))).toEqual(jsonKey);
    expect(JSON.parse(written(jsonBoundaryKey(true), boundary).toString()).payload).toEqual(jsonKey);
  }
});
