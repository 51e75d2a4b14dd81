// What is written is held to the client's own encoder, byte by byte, and to its decoder.

import { describe, expect, test } from "bun:test";
import {
  type CreateRecordsBatchOptions,
  createRecordsBatch,
  type MessageRecord,
  Reader,
  readRecordsBatch,
} from "@platformatic/kafka";
import fc from "fast-check";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import { type Compression, RecordBatch, varint } from "../../../../src/sink/kafka/client/record-batch.ts";

type Bytes = Uint8Array | null;

interface Message {
  readonly key: Bytes;
  readonly value: Bytes;
  readonly headers?: readonly (readonly [string, string])[];
}

const compressions: readonly Compression[] = ["none", "gzip", "snappy", "lz4", "zstd"];
const timeMs = 1_700_000_000_123;
const producer = { producerId: 4_000_000_000n, epoch: 3, sequence: 17, isTransactional: true };
const text = (value: string) => Buffer.from(value);

function written(bytes: Bytes): ByteWriter | null {
  if (bytes === null) return null;
  const out = new ByteWriter(1);
  out.all(bytes);
  return out;
}

function writtenHeaders(headers: Message["headers"] = []): ByteWriter {
  const out = new ByteWriter();
  varint(out, headers.length);
  for (const part of headers.flat()) {
    out.reserve(10);
    varint(out, Buffer.byteLength(part));
    out.all(text(part));
  }
  return out;
}

function batchOf(messages: Iterable<Message>): RecordBatch {
  const batch = new RecordBatch();
  for (const { key, value, headers } of messages)
    batch.add(written(key), written(value), writtenHeaders(headers));
  return batch;
}

function ofClient(
  messages: readonly Message[],
  compression: Compression,
  { producerId, epoch, sequence, isTransactional } = producer,
): Buffer {
  const records = messages.map(({ key, value, headers = [] }) => ({
    key,
    value,
    topic: "t",
    timestamp: BigInt(timeMs),
    headers: new Map(headers.map(([name, each]) => [text(name), text(each)])),
  }));
  const options = {
    compression,
    producerId,
    producerEpoch: epoch,
    partitionLeaderEpoch: -1,
    transactionalId: isTransactional ? "id" : null,
    sequences: { getWithDefault: () => sequence },
  };
  return createRecordsBatch(
    records as unknown as MessageRecord[],
    options as unknown as Partial<CreateRecordsBatchOptions>,
  ).buffer;
}

const readBack = (bytes: Buffer) => readRecordsBatch(Reader.from(bytes));

const someMessages: readonly Message[] = [
  { key: text("key"), value: text("value") },
  { key: null, value: text("no key") },
  { key: text("removed"), value: null },
  { key: null, value: null },
  { key: text(""), value: text("") },
  {
    key: text("k"),
    value: text("with headers"),
    headers: [
      ["name", "value"],
      ["é", ""],
    ],
  },
  { key: text("k"), value: text("x".repeat(70_000)), headers: [["h".repeat(300), "v".repeat(9_000)]] },
];

describe("a batch of records", () => {
  test.each(compressions)("is what the client makes (%s)", (compression) => {
    const made = batchOf(someMessages).finish(producer, compression, timeMs);
    expect(made.equals(ofClient(someMessages, compression))).toBe(true);
  });

  test("of a producer that is not idempotent, or not in a transaction, is what the client makes", () => {
    for (const other of [
      { ...producer, isTransactional: false },
      { producerId: -1n, epoch: -1, sequence: -1, isTransactional: false },
    ]) {
      const made = batchOf(someMessages).finish(other, "none", timeMs);
      expect(made.equals(ofClient(someMessages, "none", other))).toBe(true);
    }
  });

  test("of any messages is what the client makes", () => {
    const bytes = fc.option(fc.uint8Array({ maxLength: 200 }));
    const headers = fc.array(fc.tuple(fc.string(), fc.string()), { maxLength: 4 });
    const messages = fc.array(fc.record({ key: bytes, value: bytes, headers }), { minLength: 1 });
    fc.assert(
      fc.property(messages, fc.constantFrom(...compressions), (some, compression) => {
        const made = batchOf(some).finish(producer, compression, timeMs);
        expect(made.equals(ofClient(some, compression))).toBe(true);
      }),
    );
  });

  test.each([1, 63, 64, 65, 8_191, 8_192, 8_193, 100_000])("of %p records can be read", (count) => {
    const some = Array.from({ length: count }, (_, i) => ({ key: text(`k${i}`), value: text(`v${i}`) }));
    const batch = batchOf(some);
    expect(batch.count).toBe(count);
    const { records, lastOffsetDelta, firstSequence } = readBack(batch.finish(producer, "lz4", timeMs));
    expect([lastOffsetDelta, firstSequence]).toEqual([count - 1, 17]);
    expect(records.every(({ offsetDelta }, i) => offsetDelta === i)).toBe(true);
    expect(records.every(({ key, value }, i) => `${key}` === `k${i}` && `${value}` === `v${i}`)).toBe(true);
  });

  test("is made again with another sequence, and its buffer is used again", () => {
    const batch = batchOf(someMessages);
    const first = batch.finish(producer, "zstd", timeMs);
    const again = batch.finish({ ...producer, sequence: 40 }, "zstd", timeMs);
    expect(again.equals(ofClient(someMessages, "zstd", { ...producer, sequence: 40 }))).toBe(true);
    const next = new RecordBatch(batch.release());
    expect([next.count, next.bytes]).toEqual([0, 0]);
    next.add(written(text("next")), null, writtenHeaders());
    expect(readBack(next.finish(producer, "none", timeMs)).records.map(({ key }) => `${key}`)).toEqual([
      "next",
    ]);
    expect(first.equals(ofClient(someMessages, "zstd"))).toBe(true);
  });

  test("tells the key of its first record, cut where it is long", () => {
    const long = batchOf([{ key: text("k".repeat(500)), value: text("v".repeat(70_000)) }]);
    expect(long.firstKey()).toBe("k".repeat(200));
    expect(batchOf(someMessages).firstKey()).toBe("key");
    expect(batchOf([{ key: null, value: text("v") }]).firstKey()).toBeNull();
  });

  test.each([
    ["in Avro", Uint8Array.of(0, 0, 0, 1, 2, 6, 97, 92, 98), "\\x00\\x00\\x00\\x01\\x02\\x06a\\x5cb"],
    ["that is no text", Uint8Array.of(97, 255), "a\\xff"],
    ["that is cut within a character", text(`${"k".repeat(198)}€€`), "k".repeat(198)],
    ["with what turns the writing direction", text("a\u202eb"), "ab"],
  ])("tells a key %s without what the state refuses", (_, key, told) => {
    expect(batchOf([{ key, value: text("v") }]).firstKey()).toBe(told);
  });
});
