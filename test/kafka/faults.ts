// Whatever happens to the brokers, to the network and to the service: every change is there once, in the order of its key, and the
// connector goes on within ten seconds.

import { describe, expect, test } from "bun:test";
import { FaultRig } from "../support/kafka/fault-rig.ts";
import { readTopic } from "../support/kafka/kafka-reader.ts";
import { waitFor } from "../support/wait-for.ts";

const sometime = (mostMs: number) => Bun.sleep(Math.random() * mostMs);

describe("one broker", () => {
  test("killed and started again", async () => {
    await using rig = await FaultRig.start();
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (let round = 0; round < 3; round++) {
        await sometime(1_500);
        await rig.cluster.kill(1);
        await sometime(3_000);
        await rig.cluster.restart(1);
        await rig.expectRecovery("the broker is up again");
      }
    }
    rig.expectSaid(/127\.0\.0\.1:\d+/);
    await rig.expectExact();
  });

  test("frozen, shortly and for longer than requests wait", async () => {
    await using rig = await FaultRig.start({ config: { timeout_ms: 2_000 } });
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (const forMs of [1_000, 12_000]) {
        rig.cluster.freeze(1);
        await Bun.sleep(forMs);
        rig.cluster.thaw(1);
        await rig.expectRecovery(`frozen for ${forMs} ms`);
      }
    }
    rig.expectSaid(/did not answer/);
    await rig.expectExact();
  });

  test("a network that stalls, cuts, swallows and refuses", async () => {
    await using rig = await FaultRig.start({
      cluster: { listeners: ["PROXIED"] },
      listener: "PROXIED",
      config: { timeout_ms: 1_000 },
    });
    const { proxy } = rig;
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (let round = 0; round < 20; round++) {
        await sometime(300);
        const happened = Promise.withResolvers<void>();
        proxy.cutAt(1 + Math.floor(Math.random() * 30), round % 2 === 0, happened.resolve);
        await happened.promise;
      }
      await rig.expectRecovery("cut amid requests, 20 times");
      for (const forMs of [1_000, 4_000, 12_000]) {
        proxy.stall();
        await Bun.sleep(forMs);
        proxy.resume();
        await rig.expectRecovery(`stalled for ${forMs} ms`);
      }
      proxy.strand();
      await rig.expectRecovery("what is sent over the open connections is swallowed");
      rig.proxy.strand();
      await rig.expectRecovery("once more");
      proxy.refuse(true);
      proxy.cut();
      await Bun.sleep(5_000);
      proxy.refuse(false);
      await rig.expectRecovery("refused for 5 s");
    }
    await rig.expectExact();
  });

  test("a connection that is dead, under the default timeouts", async () => {
    await using rig = await FaultRig.start({ cluster: { listeners: ["PROXIED"] }, listener: "PROXIED" });
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (let round = 0; round < 3; round++) {
        await sometime(500);
        rig.proxy.strand();
        await rig.expectRecovery("what is sent over the open connections is swallowed");
      }
    }
    await rig.expectExact();
  });

  test("a transaction that is open for longer than its timeout", async () => {
    await using rig = await FaultRig.start({
      cluster: { listeners: ["PROXIED"] },
      listener: "PROXIED",
      config: { timeout_ms: 20_000, transactions: { enabled: true, timeout_ms: 2_000 } },
    });
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (let round = 0; round < 4; round++) {
        await sometime(500);
        rig.proxy.stall();
        await Bun.sleep(4_500);
        rig.proxy.resume();
        await rig.expectRecovery("stalled for longer than transactions.timeout_ms");
      }
    }
    await rig.expectExact();
    expect(rig.run.failures.map(({ error }) => error.code)).not.toContain("kafka_fenced");
  });

  test("a source transaction of 200,000 rows is committed in parts", async () => {
    await using rig = await FaultRig.start({
      config: { transactions: { enabled: true, timeout_ms: 1_000 } },
      rows: 10,
    });
    await rig.run.untilRealtime();
    await rig.query(
      "insert into a select i, 0, 0, repeat('x', 100) from generate_series(1000, 200999) i; update b set v = v + 1",
    );
    const ms = await rig.untilCaughtUp("200,000 rows", 120_000);
    console.log(`200,000 rows in ${Math.round(ms)} ms; said ${[...rig.reasons].join(" | ")}`);
    await rig.expectExact();
  });

  test("a topic that is deleted is made anew, also where it has fewer partitions", async () => {
    await using rig = await FaultRig.start({ rows: 50 });
    await rig.run.untilRealtime();
    await using load = rig.load({ keys: 50 });
    await rig.untilCaughtUp("the load");
    await rig.cluster.deleteTopic("millrace.public.a");
    await rig.expectRecovery("topic a is deleted");
    const isThere = async () => (await rig.cluster.topics()).includes("millrace.public.a");
    await waitFor("the topic", isThere);
    rig.expectSaid(/millrace\.public\.a/);
    await rig.cluster.deleteTopic("millrace.public.b");
    await rig.cluster.createTopic("millrace.public.b", { partitions: 1 });
    await rig.expectRecovery("topic b has one partition now");
    const before = (await readTopic(rig.cluster, "millrace.public.b", { isolation: "read_committed" }))
      .length;
    await Bun.sleep(500);
    await rig.untilCaughtUp("more");
    const after = (await readTopic(rig.cluster, "millrace.public.b", { isolation: "read_committed" })).length;
    expect(after).toBeGreaterThan(before);
    await load[Symbol.asyncDispose]();
    expect(rig.run.isOver).toBe(false);
  });

  test("a message above message_max_bytes", async () => {
    await using rig = await FaultRig.start({ config: { message_max_bytes: 10_000 } });
    await rig.run.untilRealtime();
    await rig.query("update a set v = 1 where id = 1; update a set pad = repeat('x', 20000) where id = 2");
    await rig.query("update a set v = v + 1 where id < 100");
    await rig.expectFailure("kafka_message_too_large", /public\.a/, /"id":2/, /20\d\d\d/, /10000/);
    await rig.run.stop();
    await using higher = rig.another({ config: { message_max_bytes: 100_000 } });
    await rig.goOn(higher);
    await rig.expectExact();
  });

  test("a message above the topic's max.message.bytes, and batches above it of smaller messages", async () => {
    await using rig = await FaultRig.start({ config: { compression_type: "None" } });
    await rig.run.untilRealtime();
    await rig.cluster.configureTopic("millrace.public.a", { "max.message.bytes": 10_000 });
    await rig.query("update a set pad = repeat('y', 1000)");
    await rig.expectRecovery("batches are too large");
    await rig.query(
      "update a set pad = repeat('x', 20000) where id = 2; update a set v = v + 1 where id < 100",
    );
    await rig.expectFailure("kafka_message_too_large", /public\.a/, /"id":2/, /20\d\d\d/, /10000/);
    // What was sent beside it holds up no reader.
    const open = await rig.cluster.transactions();
    expect(open.filter(({ state }) => state === "Ongoing")).toEqual([]);
    await rig.cluster.configureTopic("millrace.public.a", { "max.message.bytes": 100_000 });
    await rig.run.restart();
    await rig.expectExact();
  });
});

describe("three brokers", () => {
  const start = () =>
    FaultRig.start({
      cluster: { brokers: 3, config: { "min.insync.replicas": 2 } },
      config: { transactions: { enabled: true, timeout_ms: 10_000 } },
    });

  test("leaders and coordinators that are killed, stopped and frozen", async () => {
    await using rig = await start();
    const { cluster } = rig;
    const coordinator = () => cluster.transactionCoordinator("millrace-k");
    const leader = () => cluster.leader("millrace.public.a", 0);
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (const [what, of] of [
        ["coordinator", coordinator],
        ["leader", leader],
      ] as const) {
        const killed = await of();
        await cluster.kill(killed);
        await rig.untilCaughtUp(`without the ${what}`);
        await cluster.restart(killed);
        await rig.expectRecovery(`the ${what} that was killed is back`);
        await cluster.waitUntilInSync("millrace.public.a");
        const stopped = await of();
        await cluster.stop(stopped);
        await rig.expectRecovery(`the ${what} has handed over`);
        await cluster.restart(stopped);
        await rig.expectRecovery(`the ${what} that was stopped is back`);
        await cluster.waitUntilInSync("millrace.public.a");
        const frozen = await of();
        const begunMs = performance.now();
        cluster.freeze(frozen);
        await rig.untilCaughtUp(`the ${what} is frozen`);
        console.log(`with a frozen ${what}: ${Math.round(performance.now() - begunMs)} ms`);
        cluster.thaw(frozen);
        await rig.expectRecovery(`the ${what} is thawed`);
        await cluster.waitUntilInSync("millrace.public.a");
      }
    }
    await rig.expectExact();
    expect(rig.run.failures.map(({ error }) => error.code)).not.toContain("kafka_fenced");
  });

  test("too few replicas", async () => {
    await using rig = await start();
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      await rig.cluster.configureTopic("millrace.public.a", { "min.insync.replicas": 3 });
      const follower = ((await rig.cluster.leader("millrace.public.a", 0)) % 3) + 1;
      await rig.cluster.kill(follower);
      await Bun.sleep(15_000);
      await rig.cluster.restart(follower);
      await rig.cluster.waitUntilInSync("millrace.public.a");
      await rig.expectRecovery("all replicas are in sync again");
    }
    rig.expectSaid(/NOT_ENOUGH_REPLICAS|min\.insync\.replicas/);
    await rig.expectExact();
  });
});

describe("authorization", () => {
  const user = "carrier";

  test("withdrawn and given back", async () => {
    const auth = { protocol: "SaslPlaintext", mechanism: "Plain", username: user, password: "secret" };
    await using rig = await FaultRig.start({
      cluster: { listeners: ["SASL_PLAINTEXT"], users: { [user]: "secret" }, authorize: true },
      listener: "SASL_PLAINTEXT",
      auth,
    });
    await rig.expectFailure("kafka_not_authorized", /millrace-k/, /Allow the user/);
    const allow = async (topics: readonly string[]) => {
      await rig.cluster.allow(
        user,
        { resource: "transactional_id", name: "millrace-k", operations: ["WRITE", "DESCRIBE"] },
        ...topics.map((name) => ({
          resource: "topic" as const,
          name,
          pattern: "PREFIXED" as const,
          operations: ["CREATE", "DESCRIBE", "WRITE", "READ"],
        })),
      );
    };
    await allow(["millrace."]);
    await rig.run.restart();
    const load = rig.load();
    await rig.run.untilRealtime();
    await rig.untilCaughtUp("all is allowed");
    await rig.cluster.withdraw(user);
    await rig.expectFailure("kafka_not_authorized", /Allow the user/);
    await allow(["millrace.checkpoints", "millrace.public.b", "millrace.public.nudge"]);
    await rig.run.restart();
    await rig.expectFailure("kafka_not_authorized", /millrace\.public\.a/, /Allow the user/);
    await allow(["millrace.public.a"]);
    await rig.run.restart();
    await rig.expectRecovery("all is allowed again");
    await load[Symbol.asyncDispose]();
    await rig.expectExact();
  });

  test("a password that does not hold any more", async () => {
    const auth = { protocol: "SaslPlaintext", mechanism: "ScramSha256", username: user, password: "secret" };
    await using rig = await FaultRig.start({
      cluster: { listeners: ["SASL_PLAINTEXT"], users: { [user]: "secret" } },
      listener: "SASL_PLAINTEXT",
      auth,
    });
    await using load = rig.load();
    await rig.run.untilRealtime();
    await rig.cluster.setPassword(user, "other");
    await rig.cluster.kill(1);
    await rig.cluster.restart(1);
    await rig.expectFailure("sink_authentication_failed", /password/);
    await rig.cluster.setPassword(user, "secret");
    await rig.run.restart();
    await rig.expectRecovery("the password holds again");
    await load[Symbol.asyncDispose]();
    await rig.expectExact();
  });
});

describe("a run that is stopped", () => {
  test("leaves no transaction open", async () => {
    await using rig = await FaultRig.start({
      config: { transactions: { enabled: true, timeout_ms: 60_000 } },
    });
    for (let round = 0; round < 5; round++) {
      const load = rig.load({ pauseMs: 0 });
      await rig.run.untilRealtime();
      await sometime(1_000);
      await rig.run.stop();
      const open = await rig.cluster.transactions();
      expect(open.filter(({ state }) => state === "Ongoing")).toEqual([]);
      await load[Symbol.asyncDispose]();
      await rig.run.restart();
      await rig.run.untilRealtime();
    }
    await rig.expectExact();
  });
});
