// How topics are asked for: many at once, and yet no more than a controller takes in one request.

import { expect, test } from "bun:test";
import { type Connection, Reader, type Writer } from "@platformatic/kafka";
import type { Cluster } from "../../../../src/sink/kafka/client/cluster.ts";
import { type TopicPlan, Topics } from "../../../../src/sink/kafka/client/topics.ts";

/** How many topics each request makes, and how many records they are in the controller's log: a topic, its settings, its partitions. */
async function requestsFor(topics: number, plan: Pick<TopicPlan, "partitions" | "config">) {
  const requests: { readonly topics: number; readonly records: number }[] = [];
  const made = new Map<string, { leaders: number[] }>();
  const send = (_key: number, _version: number, request: () => Writer, ...others: unknown[]) => {
    const asked = Reader.from(request().dynamicBuffer).readArray((r) => {
      const [name, partitions] = [r.readString(), r.readInt32()];
      r.readInt16();
      r.readArray(() => {});
      const { length } = r.readArray((r) => [r.readString(), r.readNullableString()]);
      return { name, partitions, records: 1 + partitions + length };
    });
    requests.push({ topics: asked.length, records: asked.reduce((sum, { records }) => sum + records, 0) });
    for (const { name, partitions } of asked) made.set(name, { leaders: Array(partitions).fill(1) });
    (others.at(-1) as (error: null, answer: object) => void)(null, {});
  };
  const cluster = {
    topics: async (names: readonly string[]) => new Map([...made].filter(([name]) => names.includes(name))),
    askController: (ask: (connection: Connection) => Promise<unknown>) =>
      ask({ send } as unknown as Connection),
  };
  const { signal } = new AbortController();
  const client = new Topics(
    cluster as unknown as Cluster,
    async () => {},
    () => 0,
    signal,
  );
  const names = Array.from({ length: topics }, (_, i) => `t${i}`);
  const whole = { ...plan, replicationFactor: 1, operationTimeoutMs: 1_000 };
  const sizes = await client.ensure(names, whole);
  expect([...sizes.keys()].sort()).toEqual(names.sort());
  return requests;
}

const config = [
  { key: "cleanup.policy", value: "compact" },
  { key: "retention.ms", value: "1" },
];

test("topics with few partitions are made by the hundreds", async () => {
  const requests = await requestsFor(250, { partitions: 1, config });
  expect(requests.map(({ topics }) => topics)).toEqual([200, 50]);
});

// A KRaft controller refuses every topic of a request with more: MAX_RECORDS_PER_USER_OP, and MAX_PARTITIONS_PER_BATCH.
test("a request makes no more partitions than a controller takes, and at least one topic", async () => {
  const requests = await requestsFor(250, { partitions: 60, config });
  for (const { records } of requests) expect(records).toBeWithin(1, 10_001);
  expect(requests.reduce((sum, { topics }) => sum + topics, 0)).toBe(250);
  expect(requests.length).toBeLessThan(5);
  expect((await requestsFor(3, { partitions: 9_000, config: [] })).map(({ topics }) => topics)).toEqual([
    1, 1, 1,
  ]);
});
