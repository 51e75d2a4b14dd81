// A table of a connector to Kafka that parks three messages at most, and rows of it. No broker is needed.

import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { compileTable } from "../../../src/sink/format/compiled-table.ts";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { MessageHeaders } from "../../../src/sink/kafka/message-headers.ts";
import type { KafkaTable } from "../../../src/sink/kafka/message-writer.ts";
import { PartitionQueue } from "../../../src/sink/kafka/produce/round.ts";
import { type FixtureChange, relation } from "../batch-fixture.ts";
import { sampleConfig, sampleRequest } from "../sample-connector.ts";

export const relationOfT = relation("t", [
  ["id", 23, "integer"],
  ["v", 25, "text"],
]);
const kafka = {
  ...{ connection: { brokers: ["127.0.0.1:1"] }, format: { native: {} }, topic_options: {} },
  on_exhausted: { park: { max_messages: 3 } },
};
export const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
const source = { connectorId: "rig", database: "shop", schema: "public", table: "t" };
export const table: KafkaTable = {
  ...compileTable(relationOfT, settings.encoding.compile(relationOfT)),
  ...{
    key: null,
    headers: new MessageHeaders(settings.messages, source),
    queues: [new PartitionQueue("t", 0)],
  },
};
export const tooLarge = new MillraceError("kafka_message_too_large", "too large");

export function insert(id: number, v: string): FixtureChange {
  return { kind: "insert", relation: relationOfT, after: [String(id), v] };
}
