// Messages of rows with large values, which a writer only remembers: a row that does not fit leaves nothing behind in the next one.

import { expect, test } from "bun:test";
import { lsn } from "../../../src/change/lsn.ts";
import { toMillraceError } from "../../../src/errors/millrace-error.ts";
import { withoutValues } from "../../../src/errors/row-in-reason.ts";
import { ChangeRows } from "../../../src/sink/delivery/stream/change-rows.ts";
import type { PlannedRow } from "../../../src/sink/delivery/stream/request-plan.ts";
import { compileTable } from "../../../src/sink/format/compiled-table.ts";
import { releaseArena, retainArena } from "../../../src/sink/format/values/arena-references.ts";
import type { ByteWriter } from "../../../src/sink/format/values/byte-writer.ts";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { MessageHeaders } from "../../../src/sink/kafka/message-headers.ts";
import { type KafkaTable, MessageWriter } from "../../../src/sink/kafka/message-writer.ts";
import { PartitionQueue } from "../../../src/sink/kafka/produce/round.ts";
import { sampleConfig, sampleRequest } from "../../support/api/sample-connector.ts";
import { batches, relation, transaction } from "../../support/rows/batch-fixture.ts";

const maxMessageBytes = 4_000_000;
const documents = relation("documents", [
  ["id", 23, "integer"],
  ["title", 25, "text"],
  ["body", 25, "text"],
]);
const kafka = { connection: { brokers: ["127.0.0.1:1"] }, format: { native: {} }, topic_options: {} };
const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
const source = { connectorId: "rig", database: "shop", schema: "public", table: "documents" };
const table: KafkaTable = {
  ...compileTable(documents, settings.encoding.compile(documents)),
  key: null,
  headers: new MessageHeaders(settings.messages, source),
  queues: [new PartitionQueue("documents", 0)],
};

/** What is added of these rows, or what is thrown. */
function messagesOf(
  rows: readonly (readonly [id: string, title: string, body: string])[],
  key: KafkaTable["key"] = null,
): unknown[] {
  const made: unknown[] = [];
  const log = {
    add: (_: unknown, _key: unknown, value: ByteWriter | null) =>
      made.push(JSON.parse(new TextDecoder().decode(value?.slice()))),
  };
  const writer = new MessageWriter(log as never, settings.messages, maxMessageBytes);
  const changes = new ChangeRows(1, settings.encoding, [], null);
  const outlet = {
    addRow: (_: unknown, row: PlannedRow) => {
      try {
        writer.addRow({ ...table, key }, row);
      } catch (error) {
        made.push(toMillraceError(error));
      }
    },
    addBoundary: () => {},
    tookVersion: () => {},
    seal: () => {},
    hasCapacity: true,
    untilCapacity: async () => {},
  };
  const inserts = rows.map((after) => ({ kind: "insert" as const, relation: documents, after: [...after] }));
  const from = { resumeLsn: lsn(1n), partial: null, lastVersion: 1n };
  for (const batch of batches([transaction(1, inserts)], { from })) {
    retainArena(batch.arena);
    for (let i = 0; i < batch.count; i++) changes.add(batch, i, table, outlet);
    releaseArena(batch.arena);
  }
  return made;
}

const large = (bytes: number) => "x".repeat(bytes);

test("a row that does not fit has no part in the next one", () => {
  const [refused, next, last] = messagesOf([
    ["1", large(500_000), large(maxMessageBytes - 100_000)],
    ["2", "small", "own"],
    ["3", "large", large(2_000_000)],
  ]);
  expect(refused).toMatchObject({ code: "kafka_message_too_large" });
  expect(next).toMatchObject({ id: 2, title: "small", body: "own" });
  expect(last).toMatchObject({ id: 3, title: "large", body: large(2_000_000) });
});

test("a row with a value above the limit does not make others too large", () => {
  const [refused, next] = messagesOf([
    ["1", "", large(maxMessageBytes + 1)],
    ["2", "small", "own"],
  ]);
  expect(refused).toMatchObject({ code: "kafka_message_too_large" });
  expect(next).toMatchObject({ id: 2, title: "small", body: "own" });
});

test("a log has no key of a message that is too large", () => {
  const planted = { writeKey: (out: ByteWriter) => out.all(Buffer.from('{"email":"planted”"}')) };
  const [refused] = messagesOf([["1", "", large(maxMessageBytes + 1)]], planted);
  const { message } = toMillraceError(refused);
  expect(message).toContain("planted");
  expect(withoutValues(message)).toContain(
    "(topic documents, key (told by the status)). Nothing is skipped.",
  );
});

test("a key in Avro is told without bytes that the state refuses in a text", () => {
  const inAvro = { writeKey: (out: ByteWriter) => out.all(Uint8Array.of(0, 0, 0, 0, 7, 2)) };
  const [refused] = messagesOf([["1", "", large(maxMessageBytes + 1)]], inAvro);
  const { message } = toMillraceError(refused);
  expect(message).toContain("(topic documents, key “\\x00\\x00\\x00\\x00\\x07\\x02”)");
  expect(message).not.toMatch(/\p{Cc}/u);
});
