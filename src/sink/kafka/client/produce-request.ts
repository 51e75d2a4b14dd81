// Sends batches to the broker that leads their partitions (Produce, version 9). The client's own encoder makes an object for each message;
// this one takes batches that are written already. https://kafka.apache.org/protocol#The_Messages_Produce

import { type Connection, produceV9, Writer } from "@platformatic/kafka";
import { errorName, withRefusals } from "./kafka-error.ts";

export interface PartitionBatch {
  readonly topic: string;
  readonly partition: number;
  /** As `RecordBatch.finish` makes it. */
  readonly bytes: Buffer;
}

export type Acks = "All" | "Leader";

export interface ProduceOptions {
  readonly transactionalId: string | null;
  readonly acks: Acks;
  /** How long the broker may wait for its replicas. */
  readonly timeoutMs: number;
}

const produceKey = 0;
const produceVersion = 9;

export interface ProduceAnswer {
  /** Kafka's name of what a broker said of a partition's batch; null: it was taken. */
  readonly verdicts: ReadonlyMap<PartitionBatch, string | null>;
  /** What a broker said besides, in its own words. */
  readonly words: ReadonlyMap<PartitionBatch, string>;
  /** Offsets of the batches' first messages; negative, or absent: the broker did not tell. */
  readonly offsets: ReadonlyMap<PartitionBatch, number>;
  /** For so long the broker reads nothing more over this connection. */
  readonly throttleMs: number;
}

type Answer = ReturnType<typeof produceV9.parseResponse>;

/** One batch of a partition at most. Throws what the client throws when no broker answered; then some may have been taken. */
export async function produce(
  connection: Connection,
  batches: readonly PartitionBatch[],
  options: ProduceOptions,
): Promise<ProduceAnswer> {
  const answer = await withRefusals(ask(connection, batches, options));
  const told = new Map<string, Said>();
  for (const { name, partitionResponses } of answer.responses)
    for (const { index, ...said } of partitionResponses) told.set(`${name}/${index}`, said);
  const saidOf = ({ topic, partition }: PartitionBatch) => told.get(`${topic}/${partition}`);
  const verdicts = new Map(
    batches.map((batch) => {
      const code = saidOf(batch)?.errorCode ?? unknownServerError;
      return [batch, code === 0 || code === duplicateSequence ? null : errorName(code)];
    }),
  );
  const offsets = new Map(batches.map((batch) => [batch, Number(saidOf(batch)?.baseOffset ?? -1n)]));
  const words = new Map(batches.map((batch) => [batch, wordsOf(saidOf(batch))]));
  return { verdicts, words, offsets, throttleMs: answer.throttleTimeMs };
}

type Said = Pick<
  Answer["responses"][number]["partitionResponses"][number],
  "errorCode" | "baseOffset" | "recordErrors" | "errorMessage"
>;

/** What it says of a message says more than what it says of all. Empty: nothing. */
function wordsOf(said: Said | undefined): string {
  const ofMessage = said?.recordErrors.find(({ batchIndexErrorMessage }) => batchIndexErrorMessage);
  return ofMessage?.batchIndexErrorMessage || said?.errorMessage || "";
}

function ask(
  connection: Connection,
  batches: readonly PartitionBatch[],
  { transactionalId, acks, timeoutMs }: ProduceOptions,
): Promise<Answer> {
  const byTopic = [...Map.groupBy(batches, ({ topic }) => topic)];
  const payload = () =>
    Writer.create()
      .appendString(transactionalId)
      .appendInt16(acks === "All" ? -1 : 1)
      .appendInt32(timeoutMs)
      .appendArray(byTopic, (topics, [topic, ofTopic]) => {
        topics.appendString(topic).appendArray([...ofTopic], (partitions, { partition, bytes }) => {
          partitions
            .appendInt32(partition)
            .appendUnsignedVarInt(bytes.length + 1)
            .append(bytes);
        });
      })
      .appendTaggedFields();
  return new Promise((resolve, reject) => {
    connection.send(
      produceKey,
      produceVersion,
      payload,
      produceV9.parseResponse,
      true,
      true,
      (error, answer) => {
        if (error) reject(error);
        else resolve(answer as Answer);
      },
    );
  });
}

const unknownServerError = -1;
/** The broker has it already. */
const duplicateSequence = 46;
