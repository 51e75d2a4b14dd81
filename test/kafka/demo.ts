// The demo with a Kafka cluster beside it: its topics end up with what the source had.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { resolve } from "node:path";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic } from "../support/kafka/kafka-reader.ts";

const main = resolve(import.meta.dirname, "..", "..", "src", "main.ts");
let cluster: KafkaCluster;

beforeAll(async () => {
  cluster = await KafkaCluster.start();
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

async function run(...flags: string[]) {
  const child = Bun.spawn([process.execPath, main, "demo", "--once", ...flags], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { out, err, code };
}

test("a third connector writes to the brokers, and the demo shows how to read that", async () => {
  const { out, err, code } = await run("--kafka", "--brokers", cluster.bootstrap.join(","));
  expect(code, out + err).toBe(0);
  expect(out).toContain("demo-kafka");
  expect(out).toContain(
    `kcat -C -b ${cluster.bootstrap[0]} -t millrace-demo.public.orders -X isolation.level=read_committed`,
  );
  const read = (topic: string) => readTopic(cluster, topic, { isolation: "read_committed" });
  const orders = await read("millrace-demo.public.orders");
  const latest = new Map(orders.map(({ key, value }) => [String(key), value]));
  expect([...latest.values()].filter((value) => value !== null).length).toBeGreaterThan(1_000);
  const records = new Map(
    (await read("millrace.checkpoints")).map(({ key, value }) => [String(key), value] as const),
  );
  expect(records.size).toBeGreaterThan(0);
  expect([...records.values()].filter((value) => value !== null)).toEqual([]);
});

test("brokers are needed, and a cluster of which none is there is told", async () => {
  const without = await run("--kafka");
  expect(without.code).toBe(1);
  expect(without.err).toContain("--kafka and --brokers go together");
});
