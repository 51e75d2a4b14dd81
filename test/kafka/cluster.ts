// The tests' own Kafka support: that brokers start, die and come back as told, and that the reader sees what there is.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import {
  awaitKey,
  countTopic,
  hasKcat,
  readTopic,
  readTopicByKcat,
  type TopicMessage,
} from "../support/kafka/kafka-reader.ts";
import { producing, sendMessage } from "../support/kafka/send-message.ts";
import { waitFor } from "../support/wait-for.ts";

const committed = { isolation: "read_committed" } as const;
const uncommitted = { isolation: "read_uncommitted" } as const;
const bytes = (text: string) => Buffer.from(text);
const values = (messages: readonly TopicMessage[]) => messages.map(({ value }) => value?.toString() ?? null);

/** A process that is dead, and that nobody has waited for, does not count. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  const status = `/proc/${pid}/status`;
  return !existsSync(status) || !/^State:\s+Z/m.test(readFileSync(status, "utf8"));
}

describe("one broker", () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.start({ listeners: ["PROXIED"] });
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  test("the reader sees keys, values and headers as the bytes that they are", async () => {
    await cluster.createTopic("bytes", { partitions: 3 });
    const any = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const sent = [
      { partition: 0, key: any, value: any, headers: new Map([["name", any] as const, ["é", bytes("")]]) },
      { partition: 0, key: bytes("deleted"), value: null, headers: new Map() },
      { partition: 1, key: null, value: bytes(""), headers: new Map() },
      { partition: 2, key: bytes(""), value: bytes("1 2\n3"), headers: new Map() },
    ];
    const timestamp = 1_700_000_000_000n;
    await producing(cluster.bootstrap, {}, async (producer) => {
      const messages = sent.map(({ partition, key, value, headers }) => ({
        topic: "bytes",
        partition,
        timestamp,
        ...(key ? { key } : {}),
        ...(value ? { value } : {}),
        headers: new Map([...headers].map(([name, content]) => [bytes(name), content])),
      }));
      await producer.send({ acks: -1, messages });
    });
    const read = await readTopic(cluster, "bytes", committed);
    const offsets = [0n, 1n, 0n, 0n];
    expect(read).toEqual(
      sent.map(({ headers, ...message }, index) => ({
        ...message,
        headers: [...headers],
        offset: offsets[index]!,
        timestamp,
      })),
    );
    if (!hasKcat()) return;
    const withoutHeaders = read.map(({ headers: _, ...message }) => message);
    expect(await readTopicByKcat(cluster, "bytes", committed)).toEqual(withoutHeaders);
  });

  test("messages of an aborted transaction are not seen by read_committed, and an open one ends its view", async () => {
    await cluster.createTopic("transactions");
    await producing(
      cluster.bootstrap,
      { idempotent: true, transactionalId: "t", retryDelay: 20, retries: 100 },
      async (producer) => {
        await producer.initIdempotentProducer({ producerId: -1n, producerEpoch: -1 });
        for (const [value, isCommitted] of [
          ["a", true],
          ["b", false],
          ["c", true],
        ] as const) {
          const transaction = await producer.beginTransaction({ producerId: -1n, producerEpoch: -1 });
          await transaction.send({ messages: [{ topic: "transactions", value: bytes(value) }] });
          await (isCommitted ? transaction.commit() : transaction.abort());
        }
        const open = await producer.beginTransaction({ producerId: -1n, producerEpoch: -1 });
        await open.send({ messages: [{ topic: "transactions", value: bytes("open") }] });
        await waitFor(
          "markers",
          async () => values(await readTopic(cluster, "transactions", committed)).length === 2,
        );
        expect(values(await readTopic(cluster, "transactions", committed))).toEqual(["a", "c"]);
        expect(values(await readTopic(cluster, "transactions", uncommitted))).toEqual([
          "a",
          "b",
          "c",
          "open",
        ]);
        expect(await cluster.transactions()).toMatchObject([{ transactionalId: "t", state: "Ongoing" }]);
        if (hasKcat()) {
          const byKcat = await readTopicByKcat(cluster, "transactions", committed);
          expect(byKcat.map(({ value }) => String(value))).toEqual(["a", "c"]);
        }
        await open.abort();
      },
    );
    expect(await cluster.transactionCoordinator("t")).toBe(1);
  });

  test("100,000 messages are read in a few seconds", async () => {
    await cluster.createTopic("many", { partitions: 2 });
    await producing(cluster.bootstrap, {}, async (producer) => {
      for (let batch = 0; batch < 10; batch++) {
        const messages = Array.from({ length: 10_000 }, (_, index) => ({
          topic: "many",
          partition: index % 2,
          value: bytes(`${batch * 10_000 + index} ${"x".repeat(100)}`),
        }));
        await producer.send({ acks: -1, messages });
      }
    });
    const started = performance.now();
    const read = await readTopic(cluster, "many", committed);
    expect(new Set(values(read)).size).toBe(100_000);
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  test("messages and keys are counted, and a key is awaited", async () => {
    await cluster.createTopic("counted", { partitions: 2 });
    const send = (...keys: string[]) =>
      producing(cluster.bootstrap, {}, async (producer) => {
        const messages = keys.map((key, index) => ({
          topic: "counted",
          partition: index % 2,
          key: bytes(key),
          value: bytes("a row"),
        }));
        await producer.send({ acks: -1, messages });
      });
    await send("row 1", "row 2", "row 1");
    expect(await countTopic(cluster, "counted", committed)).toEqual({ messages: 3, keys: 2 });
    const comes = (ending: string, timeoutMs: number) =>
      awaitKey(cluster, "counted", [bytes("nothing"), bytes(ending)], timeoutMs, committed);
    expect(await comes(" 2", 10_000)).toBe(true);
    expect(await comes(" 3", 200)).toBe(false);
    const later = comes(" 3", 30_000);
    await send("row 3");
    expect(await later).toBe(true);
  });

  test("a topic is configured, described and deleted; an end can be cut off", async () => {
    await cluster.createTopic("short", { partitions: 1, config: { "cleanup.policy": "compact,delete" } });
    await cluster.configureTopic("short", { "max.message.bytes": 1_000 });
    await cluster.addPartitions("short", 2);
    await waitFor(
      "two partitions",
      async () => (await cluster.describeTopic("short")).partitions.length === 2,
    );
    const { partitions, config } = await cluster.describeTopic("short");
    expect(partitions[0]).toEqual({ leader: 1, replicas: [1], inSync: [1] });
    expect(config).toMatchObject({ "cleanup.policy": "compact,delete", "max.message.bytes": "1000" });
    await producing(cluster.bootstrap, {}, async (producer) => {
      const messages = ["a", "b"].map((text) => ({
        topic: "short",
        partition: 0,
        key: bytes(text),
        value: bytes(text),
      }));
      await producer.send({ acks: -1, messages });
    });
    await cluster.deleteRecords("short", 0, 1n);
    expect(values(await readTopic(cluster, "short", committed))).toEqual(["b"]);
    await cluster.deleteTopic("short");
    await waitFor("no topic", async () => !(await cluster.topics()).includes("short"));
  });

  test("clients of PROXIED come through the proxy", async () => {
    await cluster.createTopic("proxied");
    const before = cluster.proxies[0]!.accepted;
    await sendMessage(cluster.addresses("PROXIED"), "proxied", "a");
    expect(cluster.proxies[0]!.accepted).toBeGreaterThan(before);
    expect(values(await readTopic(cluster, "proxied", committed))).toEqual(["a"]);
  });

  test("what was acknowledged is there after a kill and a restart", async () => {
    await cluster.createTopic("kept");
    await sendMessage(cluster.bootstrap, "kept", "before");
    await cluster.kill(1);
    await expect(sendMessage(cluster.bootstrap, "kept", "lost", { retries: 0 })).rejects.toThrow();
    await cluster.restart(1);
    await sendMessage(cluster.bootstrap, "kept", "after");
    expect(values(await readTopic(cluster, "kept", committed))).toEqual(["before", "after"]);
  });

  test("a frozen broker answers nothing until it thaws", async () => {
    await cluster.createTopic("frozen");
    cluster.freeze(1);
    const sent = sendMessage(cluster.bootstrap, "frozen", "a");
    const first = await Promise.race([sent.then(() => "sent"), Bun.sleep(1_000).then(() => "nothing")]);
    expect(first).toBe("nothing");
    cluster.thaw(1);
    await sent;
    expect(values(await readTopic(cluster, "frozen", committed))).toEqual(["a"]);
  });
});

test("of three brokers another one leads when the leader is killed, and it comes back", async () => {
  await using cluster = await KafkaCluster.start({ brokers: 3 });
  await cluster.createTopic("led", { config: { "min.insync.replicas": 2 } });
  const first = await cluster.leader("led", 0);
  await sendMessage(cluster.bootstrap, "led", "before");
  await cluster.kill(first);
  await waitFor("another leader", async () => (await cluster.leader("led", 0)) !== first);
  await sendMessage(cluster.bootstrap, "led", "between", { retries: 20, retryDelay: 250 });
  await cluster.restart(first);
  await cluster.waitUntilInSync("led");
  expect(values(await readTopic(cluster, "led", committed))).toEqual(["before", "between"]);
  expect([1, 2, 3]).toContain(await cluster.transactionCoordinator("some"));
});

test("nothing is left when the test process is killed, not even a frozen broker", async () => {
  const program = `
    import { KafkaCluster } from ${JSON.stringify(join(import.meta.dirname, "..", "support", "kafka", "kafka-cluster.ts"))};
    const cluster = await KafkaCluster.start();
    cluster.freeze(1);
    console.log(JSON.stringify({ directory: cluster.directory, pids: cluster.pids }));
    setInterval(() => {}, 1_000);
  `;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" });
  let output = "";
  for await (const chunk of child.stdout) {
    output += new TextDecoder().decode(chunk);
    if (output.includes("\n")) break;
  }
  const { directory, pids } = JSON.parse(output) as { directory: string; pids: number[] };
  expect(pids.filter(isAlive)).toEqual(pids);
  child.kill("SIGKILL");
  await child.exited;
  await waitFor("the end of all processes", () => !pids.some(isAlive));
  await waitFor("no directory", () => !existsSync(directory));
});
