// Messages that are larger than their topics take: what is told of them, and to whom.

import { ProtocolError } from "@platformatic/kafka";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { messageKey } from "../../../errors/row-in-reason.ts";
import type { Cluster } from "../client/cluster.ts";
import type { RecordBatch } from "../client/record-batch.ts";
import { alterTopic, readSettings } from "../client/topics.ts";
import type { MessageRow } from "../parking/refused-records.ts";
import type { TransactionalProducer } from "./transactional-producer.ts";

/** What a broker says of a batch. `words`: its own; empty: none. */
export class RefusedBatch extends ProtocolError {
  constructor(
    verdict: string,
    readonly topic: string,
    words = "",
  ) {
    super(verdict as ConstructorParameters<typeof ProtocolError>[0], words || topic);
  }
}

export interface TooLarge {
  readonly error: RefusedBatch;
  /** Of the message alone. */
  readonly batch: RecordBatch;
}

/** Tells of each. Returns the failure that the first one is. */
export async function tellTooLarge(
  refused: readonly TooLarge[],
  cluster: Cluster,
  producer: TransactionalProducer,
  events: { tooLarge?(row: MessageRow | null, reason: string): Promise<void> },
): Promise<MillraceError> {
  const limits = new Map<string, string>();
  const failures: MillraceError[] = [];
  for (const { error, batch } of refused) {
    const { topic } = error;
    if (!limits.has(topic)) limits.set(topic, await limitOf(cluster, topic));
    const text =
      `A message of ${batch.bytes} bytes is larger than topic ${topic} takes${limits.get(topic)} (${messageKey(batch.firstKey())}). ` +
      `Nothing is skipped. Raise max.message.bytes of the topic, then start the connector: ` +
      alterTopic(topic, `max.message.bytes=${batch.bytes * 2}`);
    await events.tooLarge?.(batch.firstRow, text);
    const cause = producer.failure(error, `take messages of ${topic}`);
    failures.push(new MillraceError("kafka_message_too_large", text, { cause }));
  }
  return failures[0]!;
}

/** Empty: it is not known. */
async function limitOf(cluster: Cluster, topic: string): Promise<string> {
  const key = "max.message.bytes";
  try {
    const settings = await cluster.ask((connection) => readSettings(connection, "topic", [topic], [key]));
    const most = settings.get(topic)?.get(key);
    return most === undefined ? "" : `, whose max.message.bytes is ${most}`;
  } catch {
    return "";
  }
}
