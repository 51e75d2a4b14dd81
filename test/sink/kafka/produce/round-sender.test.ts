import { expect, test } from "bun:test";
import { type Connection, ResponseError } from "@platformatic/kafka";
import { sleepOrThrow } from "../../../../src/concurrency/sleep.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { withoutValues } from "../../../../src/errors/row-in-reason.ts";
import { ByteWriter } from "../../../../src/sink/format/values/byte-writer.ts";
import type { Cluster } from "../../../../src/sink/kafka/client/cluster.ts";
import { kafkaFailure } from "../../../../src/sink/kafka/client/kafka-error.ts";
import { RecordBatch } from "../../../../src/sink/kafka/client/record-batch.ts";
import { plainHeaders } from "../../../../src/sink/kafka/message-headers.ts";
import { PartitionQueue, type Round } from "../../../../src/sink/kafka/produce/round.ts";
import { RoundSender } from "../../../../src/sink/kafka/produce/round-sender.ts";
import type { TransactionalProducer } from "../../../../src/sink/kafka/produce/transactional-producer.ts";

const noHeaders = plainHeaders([]);
const taken = 0;
const requestTimedOut = 7;
const messageTooLarge = 10;
const recordListTooLarge = 18;
const unknownToAll = 12_345;
const invalidRecord = 87;

/** So many messages of so many bytes, whose keys name the topic. */
function batchOf(topic: string, messages: number, bytes: number, names: string[] = []): RecordBatch {
  const batch = new RecordBatch();
  const key = new ByteWriter();
  key.all(Buffer.from(`key in ${topic}`));
  const value = new ByteWriter();
  value.all(new Uint8Array(bytes));
  for (let i = 0; i < messages; i++)
    batch.add(
      key,
      value,
      noHeaders,
      names[i] ? { name: names[i]!, bytes: 1, position: null, version: 1, parkedId: null } : null,
    );
  return batch;
}

/** What brokers say of a message that they refuse. */
const withoutKey = "Compacted topic cannot accept message without key in topic partition orders-0.";
const recordErrors = (code: number) =>
  code === invalidRecord ? [{ batchIndex: 0, batchIndexErrorMessage: withoutKey }] : [];

/** Sends a round to a broker that answers for each topic as told. Returns what it fails with; null: all is taken. */
async function failureOf(
  answers: Readonly<Record<string, number>>,
  batches: Round["batches"],
): Promise<unknown> {
  return await sendTo(senderTo(answers, { slept() {}, throttleMs: 0 }).sender, batches);
}

/** `slept`: is told how long the sender waits, which it does not, in truth. */
function senderTo(
  answers: Readonly<Record<string, number>>,
  {
    slept,
    throttleMs,
    ...others
  }: {
    readonly slept: (ms: number) => void;
    readonly throttleMs: number;
    /** Default: with transactions. */
    readonly transactionalId?: null;
    readonly refused?: (name: string | null) => void;
  },
) {
  const { transactionalId = "t", refused } = others;
  const told: string[] = [];
  const connection = {
    send(...args: unknown[]) {
      const answered = args.at(-1) as (error: null, answer: unknown) => void;
      const responses = Object.entries(answers).map(([name, errorCode]) => ({
        name,
        partitionResponses: [
          { index: 0, errorCode, recordErrors: recordErrors(errorCode), errorMessage: null },
        ],
      }));
      answered(null, { responses, throttleTimeMs: throttleMs });
    },
  };
  const cluster: Pick<Cluster, "topics" | "leader" | "forgetRoles" | "node" | "answers"> = {
    topics: async () => new Map(),
    leader: () => 1,
    forgetRoles() {},
    node: async () => connection as unknown as Connection,
    answers: async () => true,
  };
  const producer: Pick<TransactionalProducer, "add" | "commit" | "failure" | "producerId" | "epoch"> = {
    producerId: 1n,
    epoch: 0,
    add: async () => {},
    commit: async () => {},
    failure: kafkaFailure,
  };
  const sender = new RoundSender(
    cluster as Cluster,
    producer as TransactionalProducer,
    {
      transactionalId,
      acks: "All",
      compression: "none",
      timeoutMs: 1_000,
      maxRetries: 3,
      maxRetryMs: 100_000,
      initialBackoffMs: 1,
      maxBackoffMs: 1,
      signal: new AbortController().signal,
      nowMs: Date.now,
      monotonic: () => performance.now(),
      sleep: async (ms, signal) => {
        if (throttleMs === 0) return await sleepOrThrow(ms, signal);
        slept(ms);
        // The watch over a broker that says nothing.
        if (ms === 2_000) await new Promise(() => {});
      },
    },
    {
      sent() {},
      halved() {},
      committed() {},
      tooLarge: async (row) => refused?.(row?.name ?? null),
      retrying: (attempt, reason) => void (attempt !== null && told.push(reason)),
    },
  );
  return { sender, told };
}

/** Returns what it fails with; null: all is taken. */
async function sendTo(sender: RoundSender, batches: Round["batches"]): Promise<unknown> {
  const round: Round = {
    batches,
    isCommit: false,
    after: null,
    bytes: 0,
    messages: 0,
    done: Promise.withResolvers<void>(),
  };
  return await sender.send(round).then(
    () => null,
    (error: unknown) => error,
  );
}

test.each([
  ["before", requestTimedOut, ["wide", "narrow"]],
  ["behind", requestTimedOut, ["narrow", "wide"]],
  ["beside", taken, ["narrow", "wide"]],
])(
  "a message that is too large is told of the topic that refuses it, %s a larger one of another topic (which answers %i)",
  async (_, other, topics) => {
    const sizes: Readonly<Record<string, number>> = { wide: 600_000, narrow: 2_000 };
    const batches = new Map(
      topics.map((topic) => [new PartitionQueue(topic, 0), [batchOf(topic, 1, sizes[topic]!)]]),
    );
    const failure = await failureOf({ wide: other, narrow: messageTooLarge }, batches);
    expect(withoutValues((failure as MillraceError).message)).not.toContain("in narrow");
    expect(failure).toMatchObject({
      code: "kafka_message_too_large",
      message: expect.stringMatching(
        /^A message of 2\d\d\d bytes is larger than topic narrow takes.*key “key in narrow”/,
      ),
    });
  },
);

test("an error that the client does not know is told by its number, and passes", async () => {
  const queue = new PartitionQueue("orders", 0);
  const failure = await failureOf({ orders: unknownToAll }, new Map([[queue, [batchOf("orders", 1, 10)]]]));
  expect(failure).toMatchObject({
    code: "sink_connection_lost",
    retry: "transient",
    message: "Kafka refused to take messages of orders: ERROR_12345, orders.",
  });
});

test("a message that the broker refuses is told in the broker's words, with what to do", async () => {
  const queue = new PartitionQueue("orders", 0);
  const failure = await failureOf({ orders: invalidRecord }, new Map([[queue, [batchOf("orders", 1, 10)]]]));
  expect(failure).toMatchObject({
    code: "kafka_rejected",
    message: expect.stringMatching(
      /^Kafka refused to take messages of orders: INVALID_RECORD, Compacted topic cannot accept message without key in topic partition orders-0\. If the topic is compacted, it takes no message without a key: exclude/,
    ),
  });
});

test.each([unknownToAll, -321])("the client makes its own error of code %i", (code) => {
  const refused = new ResponseError(0, 9, { "/responses/0": [code, null] }, {});
  expect(kafkaFailure(refused, "make topic orders")).toMatchObject({
    code: "sink_connection_lost",
    retry: "transient",
    message: `Kafka refused to make topic orders: ERROR_${code}, a code that millrace does not know.`,
  });
});

test("a topic that is to have more replicas than brokers live waits for them, and the setting is named", () => {
  const refused = new ResponseError(19, 6, { "/topics/0": [38, "3 replicas, 2 brokers."] }, {});
  expect(kafkaFailure(refused, "make topic orders")).toMatchObject({
    code: "sink_too_few_brokers",
    retry: "transient",
    message: expect.stringMatching(
      /^Kafka refused to make topic orders: INVALID_REPLICATION_FACTOR, 3 replicas, 2 brokers\. Set topic_options\.replication_factor/,
    ),
  });
});

// Seven halvings, and three retries.
test.each([
  ["MESSAGE_TOO_LARGE", messageTooLarge],
  ["RECORD_LIST_TOO_LARGE", recordListTooLarge],
])("messages that are %s together are sent in halves until one alone is refused", async (_, refusal) => {
  const narrow = new PartitionQueue("narrow", 0);
  const failure = await failureOf({ narrow: refusal }, new Map([[narrow, [batchOf("narrow", 100, 2_000)]]]));
  expect(failure).toMatchObject({
    message: expect.stringMatching(/^A message of 2\d\d\d bytes is larger than topic narrow takes/),
  });
});

test("a broker that asks to wait is waited for, and nothing is sent meanwhile", async () => {
  const slept: number[] = [];
  const { sender, told } = senderTo({ a: taken }, { slept: (ms) => slept.push(ms), throttleMs: 5_000 });
  const batches = () => new Map([[new PartitionQueue("a", 0), [batchOf("a", 1, 100)]]]);
  const waits = () => slept.filter((ms) => ms !== 2_000);
  expect(await sendTo(sender, batches())).toBeNull();
  expect(waits()).toEqual([]);
  expect(await sendTo(sender, batches())).toBeNull();
  expect(waits()[0]).toBeWithin(4_000, 5_001);
  expect(told[0]).toMatch(
    /^Broker 1 takes no more for [45]\.\d s: a quota .* is used up\. Raise producer_byte_rate/,
  );
});

test.each([
  ["with transactions, all that are refused are told", undefined, ["a", "b", "c", "d", null]],
  ["without, those of one answer: what is behind them is not to go first", null, ["a", "d"]],
] as const)("%s", async (_, transactionalId, expected) => {
  const told: (string | null)[] = [];
  const { sender } = senderTo(
    { one: messageTooLarge, two: messageTooLarge },
    {
      slept() {},
      throttleMs: 0,
      refused: (name) => told.push(name),
      ...(transactionalId === null ? { transactionalId } : {}),
    },
  );
  const failure = await sendTo(
    sender,
    new Map([
      [new PartitionQueue("one", 0), [batchOf("one", 3, 2_000, ["a", "b", "c"])]],
      [new PartitionQueue("two", 0), [batchOf("two", 2, 2_000, ["d"])]],
    ]),
  );
  expect(failure).toMatchObject({ code: "kafka_message_too_large" });
  expect(told.toSorted()).toEqual([...expected].toSorted());
});
