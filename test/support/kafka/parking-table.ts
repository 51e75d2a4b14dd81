// A connector to Kafka that parks three messages at most, over a parking in memory that outlives its sessions: its table, and rows of it. No
// broker is needed.

import { sleepOrThrow } from "../../../src/concurrency/sleep.ts";
import type { ParkingCall } from "../../../src/connector/parking.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { parkingStoreOf } from "../../../src/sink/delivery/parking/parking-store.ts";
import type { PlannedRow } from "../../../src/sink/delivery/stream/request-plan.ts";
import { compileTable } from "../../../src/sink/format/compiled-table.ts";
import { kafkaSettings } from "../../../src/sink/kafka/kafka-settings.ts";
import { MessageHeaders } from "../../../src/sink/kafka/message-headers.ts";
import type { KafkaTable } from "../../../src/sink/kafka/message-writer.ts";
import {
  KafkaParkingSet,
  type KafkaParkingTools,
} from "../../../src/sink/kafka/parking/kafka-parking-set.ts";
import { PartitionQueue } from "../../../src/sink/kafka/produce/round.ts";
import { sampleConfig, sampleRequest } from "../api/sample-connector.ts";
import { type FixtureChange, relation } from "../rows/batch-fixture.ts";
import type { MemoryParking } from "../webhook/memory-parking.ts";

export const relationOfT = relation("t", [
  ["id", 23, "integer"],
  ["v", 25, "text"],
]);
const kafka = {
  connection: { brokers: ["127.0.0.1:1"] },
  format: { native: {} },
  topic_options: {},
  on_exhausted: { park: { max_messages: 3 } },
};
export const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
const source = { connectorId: "rig", database: "shop", schema: "public", table: "t" };
export const table: KafkaTable = {
  ...compileTable(relationOfT, settings.encoding.compile(relationOfT)),
  key: null,
  headers: new MessageHeaders(settings.messages, source),
  queues: [new PartitionQueue("t", 0)],
};
export const tooLarge = new MillraceError("kafka_message_too_large", "too large");

export function insert(id: number, v: string): FixtureChange {
  return { kind: "insert", relation: relationOfT, after: [String(id), v] };
}

type Options = Pick<KafkaParkingTools, "add"> &
  Partial<Pick<KafkaParkingTools, "taken" | "monotonic">> & {
    readonly retryEveryMs?: number;
    /** The state answers once it has resolved. */
    readonly hold?: (call: ParkingCall) => Promise<void>;
    readonly commit?: () => void;
    readonly failed?: (error: MillraceError) => void;
  };

export function parkingSetOver(
  parking: MemoryParking,
  {
    add,
    taken = null,
    retryEveryMs = 0,
    monotonic = () => performance.now(),
    hold,
    commit = () => {},
    failed = () => {},
  }: Options,
): KafkaParkingSet {
  const { connectorId, sender } = settings;
  const store = parkingStoreOf(async (call) => {
    await hold?.(call);
    return parking.answer(call);
  });
  return new KafkaParkingSet(
    { connectorId, sender, parking: { ...settings.parking, retryEveryMs, beyond: { rows: 3, bytes: 1e6 } } },
    { retrying: () => {}, warning: () => {}, commit, failed },
    {
      place: { connectorId, store },
      monotonic,
      nowMs: Date.now,
      sleep: sleepOrThrow,
      add,
      taken,
    },
  );
}

/** The second value of a row. */
export function textOf({ arena, after: { starts, lengths } }: PlannedRow): string {
  return new TextDecoder().decode(arena.subarray(starts[1]!, starts[1]! + lengths[1]!));
}
