// The record of a connector in the topic of checkpoints: it is found after somebody has added partitions, and stays in one of them.

import { expect, test } from "bun:test";
import { AddressResolver } from "../../src/connection/egress.ts";
import type { Transport } from "../../src/sink/delivery/transport.ts";
import { dropCheckpoint } from "../../src/sink/kafka/checkpoint/drop-checkpoint.ts";
import { kafkaSettings } from "../../src/sink/kafka/kafka-settings.ts";
import { kafkaTransport } from "../../src/sink/kafka/kafka-transport.ts";
import { sampleConfig, sampleRequest } from "../support/api/sample-connector.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic } from "../support/kafka/kafka-reader.ts";
import { waitFor } from "../support/wait-for.ts";

const topic = "millrace.checkpoints";
const ids = Array.from({ length: 8 }, (_, i) => `c${i}`);

const settingsOf = (cluster: KafkaCluster, id: string) => {
  const kafka = { connection: { brokers: cluster.bootstrap }, format: { native: {} }, topic_options: {} };
  return kafkaSettings(sampleConfig(id, { ...sampleRequest(), sink: { kafka } }));
};

/** A session of a connector's only run, or of a new one. */
function session(cluster: KafkaCluster, id: string, run: string): Transport {
  const counts = { sent() {}, committed() {}, retried() {} };
  const tools = { monotonic: () => performance.now(), nowMs: Date.now, counts };
  const open = kafkaTransport(settingsOf(cluster, id), run, {
    ...tools,
    resolver: new AddressResolver("default"),
  });
  return open(
    { retrying() {}, warning() {}, failed() {}, commit() {} },
    { load: async () => null, save: async () => {} },
  );
}

/** In which partitions there is something of a connector, as readers see it once the topic is compacted. */
async function places(cluster: KafkaCluster, id: string): Promise<readonly number[]> {
  const messages = await readTopic(cluster, topic, { isolation: "read_committed" });
  const last = new Map(
    messages.map(({ partition, key, value }) => [`${partition} ${key}`, { partition, value }]),
  );
  const left = [...last].filter(([name, { value }]) => value !== null && name.split(" ")[1] === id);
  return [...new Set(left.map(([, { partition }]) => partition))];
}

async function addPartitions(cluster: KafkaCluster, partitions: number): Promise<void> {
  await cluster.addPartitions(topic, partitions);
  await waitFor("the partitions", async () => {
    return (await cluster.describeTopic(topic)).partitions.length === partitions;
  });
}

test.each([1, 3, 16])(
  "a record is found, and is the newest, when partitions are added to %i",
  async (first) => {
    await using cluster = await KafkaCluster.start();
    await cluster.createTopic(topic, { partitions: first, config: { "cleanup.policy": "compact" } });
    const saved = async (id: string, run: string, text: string) => {
      await using stack = new AsyncDisposableStack();
      const transport = session(cluster, id, run);
      stack.defer(() => transport.close());
      const before = await transport.store.load();
      await transport.store.save(text, new Map([["t", `${text} of t`]]));
      return before;
    };
    for (const id of ids) expect(await saved(id, "a", `${id} first`)).toBeNull();
    const before = await Promise.all(ids.map((id) => places(cluster, id)));
    const running = session(cluster, "c0", "b");
    await running.store.load();
    await addPartitions(cluster, first * 2 + 17);
    // A run that was there goes on where it is; what it saves is newer than what it found.
    await running.store.save("c0 meanwhile", new Map([["t", "c0 meanwhile of t"]]));
    await running.close();
    for (const id of ids) {
      const newest = id === "c0" ? "c0 meanwhile" : `${id} first`;
      expect(await saved(id, "c", `${id} second`)).toEqual({
        text: newest,
        parts: new Map([["t", `${newest} of t`]]),
      });
      expect((await saved(id, "d", `${id} third`))?.text).toBe(`${id} second`);
    }
    expect(await Promise.all(ids.map((id) => places(cluster, id)))).toEqual(before);
    expect(before.every((partitions) => partitions.length === 1)).toBeTrue();
    for (const id of ids)
      await dropCheckpoint(settingsOf(cluster, id).config, id, AbortSignal.timeout(20_000));
    expect((await Promise.all(ids.map((id) => places(cluster, id)))).flat()).toEqual([]);
  },
);
