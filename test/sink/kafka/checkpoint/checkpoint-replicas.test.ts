// The topic of checkpoints keeps the replicas that it got when it was made: that they are few is told.

import { afterEach, expect, mock, spyOn, test } from "bun:test";
import { AddressResolver } from "../../../../src/connection/egress.ts";
import { replicasWarning } from "../../../../src/sink/kafka/checkpoint/kafka-store.ts";
import { kafkaSettings } from "../../../../src/sink/kafka/kafka-settings.ts";
import { kafkaTransport } from "../../../../src/sink/kafka/kafka-transport.ts";
import { ProducerSession } from "../../../../src/sink/kafka/produce/producer-session.ts";
import { TopicQueues } from "../../../../src/sink/kafka/topic-queues.ts";
import { sampleConfig, sampleRequest } from "../../../support/api/sample-connector.ts";

afterEach(() => void mock.restore());

const few = (replicas: string, brokers: number, wanted: number) =>
  `Topic millrace.checkpoints has ${replicas}, and the cluster has ${brokers} brokers. If the brokers that have it are lost, ` +
  `the connector cannot go on. Give it ${wanted} replicas with kafka-reassign-partitions.`;

test.each([
  [1, 1, null],
  [2, 2, null],
  [3, 9, null],
  [1, 2, few("1 replica", 2, 2)],
  [2, 3, few("2 replicas", 3, 3)],
  [2, 9, few("2 replicas", 9, 3)],
])("%i replicas in a cluster of %i brokers", (replicas, brokers, warning) => {
  expect(replicasWarning(replicas, brokers)).toBe(warning);
});

test.each([
  ["has its record there", true, [few("2 replicas", 3, 3)]],
  ["has none there", false, []],
])("a run that %s tells what is true of it", async (_, enabled, expected) => {
  spyOn(TopicQueues.prototype, "prepare").mockImplementation(async () => {});
  const topics = async () => new Map([["millrace.checkpoints", { leaders: [0], replicas: 2, atMs: 0 }]]);
  const cluster = { topics, brokerCount: 3 };
  const own = Object.getOwnPropertyDescriptor(ProducerSession.prototype, "cluster")!;
  await using stack = new AsyncDisposableStack();
  stack.defer(() => void Object.defineProperty(ProducerSession.prototype, "cluster", own));
  Object.defineProperty(ProducerSession.prototype, "cluster", { ...own, get: () => cluster });
  const connection = { brokers: ["127.0.0.1:1"], config: { transactions: { enabled } } };
  const kafka = { connection, format: { native: {} }, topic_options: {} };
  const settings = kafkaSettings(sampleConfig("rig", { ...sampleRequest(), sink: { kafka } }));
  const told: (string | null)[] = [];
  const transport = kafkaTransport(settings, "run", {
    monotonic: () => performance.now(),
    nowMs: Date.now,
    resolver: new AddressResolver("default"),
    counts: { sent() {}, committed() {}, retried() {} },
  })(
    { retrying() {}, warning: (_, reason) => void told.push(reason), commit() {}, failed() {} },
    { load: async () => null, save: async () => {} },
  );
  stack.defer(() => transport.close());
  await transport.prepare?.([]);
  expect(told).toEqual(expected);
});
