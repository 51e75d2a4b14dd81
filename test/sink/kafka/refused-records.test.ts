// Messages that brokers have refused are known when their rows come again, and when a retry has sent them.

import { expect, test } from "bun:test";
import { parkingStoreOf } from "../../../src/sink/delivery/parking/parking-store.ts";
import { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import { RecordBatch } from "../../../src/sink/kafka/client/record-batch.ts";
import { plainHeaders } from "../../../src/sink/kafka/message-headers.ts";
import { RefusedRecords } from "../../../src/sink/kafka/parking/refused-records.ts";
import { MemoryParking } from "../../support/memory-parking.ts";

const encoder = new TextEncoder();
const bytes = (text: string) => encoder.encode(text);

function batchOf(key: string | null, value: string): RecordBatch {
  const writer = (text: string) => {
    const out = new ByteWriter();
    out.all(bytes(text));
    return out;
  };
  const batch = new RecordBatch();
  batch.add(key === null ? null : writer(key), writer(value), plainHeaders([["a", "b"]]));
  return batch;
}

const made = (at: number) => `,"ts_ms":${at},"ts_us":${at}000,"ts_ns":${at}000000}`;
const large = "x".repeat(100_000);

test.each([["key"], [null]])("with key %s, also in the next session", async (key) => {
  const parking = new MemoryParking();
  const store = parkingStoreOf(async (call) => parking.answer(call));
  const topic = "t";
  const first = new RefusedRecords(store);
  await first.add({ topic, ...batchOf(key, large + made(1_700_000_000_001)).first() }, "why");
  const refused = new RefusedRecords(store);
  await refused.load();
  const value = bytes(large + made(1_700_000_009_999));
  const record = { topic, key: key === null ? null : bytes(key), value };
  expect(refused.reasonOf(record)).toBe("why");
  expect(refused.reasonOf({ ...record, topic: "other" })).toBeNull();
  expect(
    refused.reasonOf({ ...record, value: bytes(`y${large.slice(1)}${made(1_700_000_009_999)}`) }),
  ).toBeNull();
  refused.sendsAgain(record, "id");
  expect([refused.sentAgain(record), refused.sentAgain({ ...record, topic: "other" })]).toEqual(["id", null]);
});
