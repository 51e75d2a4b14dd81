import { describe, expect, test } from "bun:test";
import { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import { plainHeaders } from "../../../../src/sink/kafka/message-headers.ts";
import { type LogOptions, ProducerLog } from "../../../../src/sink/kafka/produce/producer-log.ts";
import { PartitionQueue, type Round } from "../../../../src/sink/kafka/produce/round.ts";

const noHeaders = plainHeaders([]);
const roomy: LogOptions = { batchBytes: 1_000_000, maxBytes: 16_000_000, maxMessages: 1_000 };

function written(text: string): ByteWriter {
  const out = new ByteWriter();
  out.all(Buffer.from(text));
  return out;
}

/** What a round held, and what decides how it ends. */
interface SentRound {
  readonly isCommit: boolean;
  readonly messages: number;
  /** First keys of the batches, by topic and partition. */
  readonly batches: Readonly<Record<string, readonly string[]>>;
  readonly end: PromiseWithResolvers<void>;
}

class Rig {
  readonly rounds: SentRound[] = [];
  readonly failures: MillraceError[] = [];
  readonly queue = new PartitionQueue("t", 0);
  readonly other = new PartitionQueue("t", 1);
  readonly log: ProducerLog;

  nowMs = 0;

  /** `timeoutMs`: of a transaction; null: without them. */
  constructor(options: Partial<LogOptions> = {}, timeoutMs: number | null = null) {
    const pace = timeoutMs === null ? null : { timeoutMs, monotonic: () => this.nowMs };
    const failed = (error: MillraceError) => this.failures.push(error);
    this.log = new ProducerLog(
      { ...roomy, ...options },
      { send: (round) => this.#send(round) },
      failed,
      pace,
    );
  }

  add(key: string, value = "", queue = this.queue): void {
    this.log.add(queue, written(key), written(value), noHeaders);
  }

  #send({ isCommit, messages, batches }: Round): Promise<void> {
    const end = Promise.withResolvers<void>();
    const named = [...batches].map(
      ([{ topic, partition }, some]) =>
        [`${topic}/${partition}`, some.map((batch) => batch.firstKey() ?? "none")] as const,
    );
    this.rounds.push({ isCommit, messages, batches: Object.fromEntries(named), end });
    return end.promise;
  }
}

/** All that can happen without the sender has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

async function stateOf(promise: Promise<unknown>): Promise<"pending" | "fulfilled" | "rejected"> {
  let state: "pending" | "fulfilled" | "rejected" = "pending";
  promise.then(
    () => {
      state = "fulfilled";
    },
    () => {
      state = "rejected";
    },
  );
  await settled();
  return state;
}

describe("rounds", () => {
  test("what has gathered is sent when it is sealed, by partition", async () => {
    const rig = new Rig();
    rig.add("a");
    rig.add("b", "", rig.other);
    rig.add("c");
    await settled();
    expect(rig.rounds).toEqual([]);
    const sealed = rig.log.seal();
    await settled();
    expect(rig.rounds).toMatchObject([
      { isCommit: false, messages: 3, batches: { "t/0": ["a"], "t/1": ["b"] } },
    ]);
    expect(await stateOf(sealed)).toBe("pending");
    rig.rounds[0]!.end.resolve();
    expect(await stateOf(sealed)).toBe("fulfilled");
  });

  test("go one after the other, in the order in which they were sealed", async () => {
    const rig = new Rig();
    rig.add("a");
    void rig.log.seal();
    rig.add("b");
    void rig.log.seal(true);
    rig.add("c");
    const last = rig.log.seal();
    await settled();
    expect(rig.rounds).toHaveLength(1);
    rig.rounds[0]!.end.resolve();
    await settled();
    expect(rig.rounds[1]).toMatchObject({ isCommit: true, batches: { "t/0": ["b"] } });
    expect(rig.rounds).toHaveLength(2);
    rig.rounds[1]!.end.resolve();
    await settled();
    rig.rounds[2]!.end.resolve();
    expect(await stateOf(last)).toBe("fulfilled");
  });

  test("one that holds nothing is sent: it may be a commit", async () => {
    const rig = new Rig();
    const sealed = rig.log.seal(true);
    await settled();
    expect(rig.rounds).toMatchObject([{ isCommit: true, messages: 0, batches: {} }]);
    rig.rounds[0]!.end.resolve();
    expect(await stateOf(sealed)).toBe("fulfilled");
  });

  test("a batch ends at its bytes, a larger message goes alone, and all of a partition keep their order", async () => {
    const rig = new Rig({ batchBytes: 100, maxBytes: 100_000 });
    const keep = rig.log.seal();
    for (const [key, bytes] of [
      ["a", 40],
      ["b", 40],
      ["c", 40],
      ["d", 500],
      ["e", 10],
    ] as const)
      rig.add(key, "x".repeat(bytes));
    void rig.log.seal();
    await settled();
    rig.rounds[0]!.end.resolve();
    await keep;
    await settled();
    expect(rig.rounds[1]!.batches["t/0"]).toEqual(["a", "c", "d", "e"]);
  });

  test("what fills a batch is sent without being sealed", async () => {
    const rig = new Rig({ batchBytes: 100 });
    rig.add("a", "x".repeat(40));
    await settled();
    expect(rig.rounds).toEqual([]);
    rig.add("b", "x".repeat(70));
    await settled();
    expect(rig.rounds).toMatchObject([{ isCommit: false, messages: 2 }]);
    rig.add("c", "x".repeat(120));
    rig.rounds[0]!.end.resolve();
    await settled();
    expect(rig.rounds[1]).toMatchObject({ batches: { "t/0": ["c"] } });
  });

  test("the next may be sealed as soon as one is over", async () => {
    const rig = new Rig();
    const next = rig.log.seal().then(() => {
      rig.add("a");
      return rig.log.seal();
    });
    await settled();
    rig.rounds[0]!.end.resolve();
    await settled();
    expect(rig.rounds).toHaveLength(2);
    rig.rounds[1]!.end.resolve();
    expect(await stateOf(next)).toBe("fulfilled");
  });

  test("what is added behind something to wait for is sent once that is there", async () => {
    const rig = new Rig();
    const ready = Promise.withResolvers<void>();
    const alsoReady = Promise.withResolvers<void>();
    rig.add("before");
    rig.log.waitFor(ready.promise);
    rig.log.waitFor(alsoReady.promise);
    rig.add("behind");
    void rig.log.seal();
    await settled();
    expect(rig.rounds).toMatchObject([{ batches: { "t/0": ["before"] } }]);
    rig.rounds[0]!.end.resolve();
    ready.resolve();
    await settled();
    for (const { end } of rig.rounds) end.resolve();
    await settled();
    expect(rig.rounds.flatMap(({ batches }) => batches["t/0"] ?? [])).toEqual(["before"]);
    alsoReady.resolve();
    await settled();
    expect(rig.rounds.at(-1)).toMatchObject({ batches: { "t/0": ["behind"] } });
  });
});

describe("capacity", () => {
  test.each([
    ["bytes", { maxBytes: 1_000 }],
    ["messages", { maxMessages: 4 }],
  ])("is bounded in %s, and comes back when a quarter is free", async (_, bounds) => {
    const rig = new Rig(bounds);
    expect(rig.log.hasCapacity).toBe(true);
    for (const key of ["a", "b", "c", "d"]) rig.add(key, "x".repeat(260));
    expect(rig.log.hasCapacity).toBe(false);
    const free = rig.log.untilCapacity();
    void rig.log.seal();
    expect(await stateOf(free)).toBe("pending");
    for (let i = 0; i < rig.rounds.length; i++) {
      rig.rounds[i]!.end.resolve();
      await settled();
    }
    expect(await stateOf(free)).toBe("fulfilled");
    expect(rig.log.hasCapacity).toBe(true);
  });

  test("what waits for it does not wait for a seal: what has gathered is sent", async () => {
    const rig = new Rig({ maxMessages: 2 });
    rig.add("a");
    rig.add("b");
    const free = rig.log.untilCapacity();
    await settled();
    expect(rig.rounds).toHaveLength(1);
    rig.rounds[0]!.end.resolve();
    expect(await stateOf(free)).toBe("fulfilled");
  });
});

describe("a failure", () => {
  test("ends all rounds, is told once, and nothing is sent any more", async () => {
    const rig = new Rig({ maxMessages: 2 });
    const failure = new MillraceError("kafka_rejected", "It is refused.");
    rig.add("a");
    const first = rig.log.seal();
    rig.add("b");
    const second = rig.log.seal(true);
    const free = rig.log.untilCapacity();
    await settled();
    rig.rounds[0]!.end.reject(failure);
    expect(await Promise.all([stateOf(first), stateOf(second), stateOf(free)])).toEqual([
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    expect(rig.failures).toEqual([failure]);
    expect(rig.log.isOver).toBe(true);
    rig.add("c");
    await expect(rig.log.seal()).rejects.toBe(failure);
    expect(rig.rounds).toHaveLength(1);
  });

  test("of what a round waits for is the round's", async () => {
    const rig = new Rig();
    const failure = new MillraceError("sink_connection_lost", "The state is away.");
    rig.log.waitFor(Promise.reject(failure));
    rig.add("a");
    const sealed = rig.log.seal();
    await settled();
    rig.rounds[0]?.end.resolve();
    await expect(sealed).rejects.toBe(failure);
    expect(rig.failures).toEqual([failure]);
    expect(rig.rounds.flatMap(({ batches }) => batches["t/0"] ?? [])).toEqual([]);
  });

  test("that nobody expected is told as internal", async () => {
    const rig = new Rig();
    const sealed = rig.log.seal();
    await settled();
    rig.rounds[0]!.end.reject(new TypeError("undefined is not a function"));
    await expect(sealed).rejects.toMatchObject({ code: "internal" });
    expect(rig.failures).toMatchObject([{ code: "internal" }]);
  });

  test("stopping is none: nobody waits any longer, and the rest is not sent", async () => {
    const rig = new Rig();
    rig.add("a");
    const first = rig.log.seal();
    rig.add("b");
    const second = rig.log.seal();
    await settled();
    const reason = new MillraceError("sink_connection_lost", "the sink is closed");
    rig.log.stop(reason);
    await expect(first).rejects.toBe(reason);
    await expect(second).rejects.toBe(reason);
    rig.rounds[0]!.end.resolve();
    await settled();
    expect(rig.rounds).toHaveLength(1);
    expect(rig.failures).toEqual([]);
  });

  test.each([
    ["succeeds", (end: PromiseWithResolvers<void>) => end.resolve()],
    ["fails", (end: PromiseWithResolvers<void>) => end.reject(new Error("it is refused"))],
  ])(
    "a round that nobody waits for, and that %s once all is stopped, leaves no rejection",
    async (_, ends) => {
      const unhandled: unknown[] = [];
      const note = (error: unknown) => void unhandled.push(error);
      process.on("unhandledRejection", note);
      try {
        const rig = new Rig({ batchBytes: 100, maxBytes: 1_000 });
        // It is sent without being sealed, and more has gathered than is sent together.
        for (const key of ["a", "b", "c", "d", "e", "f"]) rig.add(key, "x".repeat(120));
        await settled();
        expect(rig.rounds).toHaveLength(1);
        rig.log.stop(new MillraceError("sink_connection_lost", "the sink is closed"));
        ends(rig.rounds[0]!.end);
        await Bun.sleep(10);
        expect([rig.rounds.length, rig.failures, unhandled]).toEqual([1, [], []]);
      } finally {
        process.off("unhandledRejection", note);
      }
    },
  );
});

describe("what gathers for a transaction", () => {
  /** Sends a round of so many bytes, which takes so long. Returns what may gather then. */
  async function afterRound(rig: Rig, bytes: number, ms: number): Promise<number> {
    rig.add("k", "x".repeat(bytes));
    void rig.log.seal();
    await settled();
    rig.nowMs += ms;
    rig.rounds.at(-1)!.end.resolve();
    await settled();
    return rig.log.mostBytes;
  }

  test("is little at first, and more where it is sent fast, up to the bound", async () => {
    const rig = new Rig({ maxBytes: 1_000_000 }, 16_000);
    expect(rig.log.mostBytes).toBe(262_144);
    expect(await afterRound(rig, 200_000, 1_000)).toBe(524_288);
    // These say nothing of larger ones.
    expect(await afterRound(rig, 200_000, 1)).toBe(524_288);
    expect(await afterRound(rig, 300_000, 1_001)).toBe(524_288);
    expect(await afterRound(rig, 300_000, 999)).toBe(1_000_000);
  });

  test("is as much as there is room for where there are no transactions, or little room", () => {
    expect(new Rig({ maxBytes: 1_000_000 }).log.mostBytes).toBe(1_000_000);
    expect(new Rig({ maxBytes: 1_000 }, 16_000).log.mostBytes).toBe(1_000);
  });
});
