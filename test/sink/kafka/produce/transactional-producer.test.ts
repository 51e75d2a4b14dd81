// What is asked of a transaction's coordinator, and what is asked again. No transaction follows an end that was not answered at once.

import { describe, expect, test } from "bun:test";
import { type Connection, NetworkError, ResponseError, TimeoutError } from "@platformatic/kafka";
import { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { addFailure, decideRestart } from "../../../../src/runtime/run/restart-policy.ts";
import type { Cluster } from "../../../../src/sink/kafka/client/cluster.ts";
import { TransactionalProducer } from "../../../../src/sink/kafka/produce/transactional-producer.ts";

const names = { 22: "init", 24: "add", 26: "end" } as const;
type Asked = (typeof names)[keyof typeof names];

const endTxn = 26;
const fenced = 90;
const codes = { COORDINATOR_NOT_AVAILABLE: 15, NOT_COORDINATOR: 16, CONCURRENT_TRANSACTIONS: 51 } as const;

const lost = {
  "the connection broke": () => new NetworkError("Connection closed"),
  "nothing came in time": () => new TimeoutError("Request timed out"),
};
/** As `Cluster` says it: nothing was sent. */
const away = () => new MillraceError("sink_unreachable", "Kafka did not answer a request to connect.");
const refused = (code: number) => new ResponseError(endTxn, 3, { "/": [code, null] }, {});

/** A producer whose coordinator fails as told, and then answers. `unreached`: failures before anything is sent. */
function producerWith(failures: Partial<Record<Asked, (() => Error)[]>>, unreached: (() => Error)[] = []) {
  const asked: Asked[] = [];
  const connection = {
    send(apiKey: keyof typeof names, ...rest: unknown[]) {
      const name = names[apiKey];
      asked.push(name);
      const failure = failures[name]?.shift();
      const answered = rest.at(-1) as (error: Error | null, answer: unknown) => void;
      answered(failure?.() ?? null, { producerId: 7n, producerEpoch: 3, errorCode: 0 });
    },
  };
  const cluster: Pick<Cluster, "coordinator" | "coordinatorIsSilent" | "forgetRoles"> = {
    coordinator: async () => {
      const failure = asked.includes("add") ? unreached.shift() : undefined;
      if (failure) throw failure();
      return connection as unknown as Connection;
    },
    coordinatorIsSilent() {},
    forgetRoles() {},
  };
  let nowMs = 0;
  const producer = new TransactionalProducer(cluster as Cluster, {
    transactionalId: "t",
    timeoutMs: 60_000,
    operationTimeoutMs: 10_000,
    retrying() {},
    nowMs: () => nowMs,
    monotonic: () => nowMs,
    signal: new AbortController().signal,
    sleep: async (ms) => {
      nowMs += ms;
    },
  });
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { producer, asked, pass };
}

async function begun(...options: Parameters<typeof producerWith>) {
  const rig = producerWith(...options);
  await rig.producer.init();
  await rig.producer.add([{ topic: "orders", partition: 0 }]);
  return rig;
}

describe.each(Object.entries(lost))("%s", (_, failure) => {
  test("after the end of a transaction: it is asked again, and no other begins, as the first request may come amid it", async () => {
    const { producer, asked } = await begun({ end: [failure] });
    await producer.commit();
    expect(asked).toEqual(["init", "add", "end", "end"]);
    const next = [{ topic: "orders", partition: 0 }];
    const failed = await producer.add(next).catch((error: unknown) => error as MillraceError);
    expect(failed).toMatchObject({ retry: "transient", message: expect.stringContaining("begins anew") });
    expect(asked).toEqual(["init", "add", "end", "end"]);
    await producer.init();
    await producer.add(next);
    expect(asked.slice(4)).toEqual(["init", "add"]);
    // The run comes again soon, however often that happens.
    const streak = addFailure(null, failed as MillraceError, 0);
    const decided = { nowMs: 1e9, retryWindowMs: 300_000, random: 1 };
    expect(decideRestart(failed as MillraceError, streak, decided)).toMatchObject({
      action: "restart",
      delayMs: 250,
    });
  });

  test("before that: it is asked again, as what comes late adds what is in the transaction, or begins an empty one", async () => {
    const { producer, asked } = await begun({ init: [failure], add: [failure] });
    await producer.commit();
    expect(asked).toEqual(["init", "init", "add", "add", "end"]);
  });
});

test.each(Object.entries(codes))(
  "the end of a transaction that was answered with %s is asked for again",
  async (_, code) => {
    const { producer, asked } = await begun({ end: [() => refused(code), () => refused(code)] });
    await producer.commit();
    await producer.add([{ topic: "orders", partition: 0 }]);
    expect(asked).toEqual(["init", "add", "end", "end", "end", "add"]);
  },
);

test("the end of a transaction is asked for once the coordinator is there", async () => {
  const { producer, asked } = await begun({}, [away, away]);
  await producer.commit();
  await producer.add([{ topic: "orders", partition: 0 }]);
  expect(asked).toEqual(["init", "add", "end", "add"]);
});

test("an end that was refused, and then not answered, is asked for until it is, and no transaction follows", async () => {
  const { producer, asked } = await begun({
    end: [() => refused(codes.NOT_COORDINATOR), lost["the connection broke"]],
  });
  await producer.commit();
  await expect(producer.add([{ topic: "orders", partition: 0 }])).rejects.toMatchObject({
    retry: "transient",
  });
  expect(asked).toEqual(["init", "add", "end", "end", "end"]);
});

test("a transaction that was open for too long is told as that, with what to raise, and not as another producer", async () => {
  const { producer, pass } = await begun({ end: [() => refused(fenced), () => refused(fenced)] });
  pass(70_000);
  await expect(producer.commit()).rejects.toMatchObject({
    code: "sink_connection_lost",
    message: expect.stringMatching(
      /open for 70000 ms, .*raise transactions\.timeout_ms, which is 60000, or the quota/,
    ),
  });
  const other = await begun({ end: [() => refused(fenced)] });
  other.pass(10_000);
  await expect(other.producer.commit()).rejects.toMatchObject({ code: "kafka_fenced" });
});
