// Removes the record of a connector that is deleted, or that begins anew elsewhere, from the topic of checkpoints. Topics of tables stay.

import { sleepOrThrow } from "../../../concurrency/sleep.ts";
import { bounded } from "../../../concurrency/until-aborted.ts";
import type { KafkaSinkConfig } from "../../../connector/config/kafka-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type ProducingSettings, producingSettings } from "../kafka-settings.ts";
import { plainHeaders } from "../message-headers.ts";
import { ProducerLog } from "../produce/producer-log.ts";
import { ProducerSession } from "../produce/producer-session.ts";
import { PartitionQueue } from "../produce/round.ts";
import { checkpointTopic, findCheckpoint, partKey, utf8 } from "./checkpoint-topic.ts";

/**
 * Whoever still runs under the connector's transactional id is fenced. Without transactions there is no record. Throws errors of the
 * connection; when `signal` aborts, `sink_unreachable`.
 */
export async function dropCheckpoint(
  sink: KafkaSinkConfig,
  connectorId: string,
  signal: AbortSignal,
): Promise<void> {
  const settings = producingSettings(sink, connectorId);
  if (settings.sender.transactionalId === null) return;
  const tools = { monotonic: () => performance.now(), nowMs: Date.now, sleep: sleepOrThrow, signal };
  const nothing = () => undefined;
  const events = { retrying: nothing, sent: nothing, halved: nothing, committed: nothing };
  const session = new ProducerSession(settings, tools, events);
  try {
    await bounded(signal, () => drop(session, settings));
  } catch (error) {
    if (!signal.aborted) throw error;
    const text = `The brokers did not answer in time: the connector's record stays in topic ${checkpointTopic}, under key ${settings.checkpointKey}.`;
    throw new MillraceError("sink_unreachable", text, { cause: error });
  } finally {
    await session.close();
  }
}

async function drop(
  session: ProducerSession,
  { checkpointKey, log: bounds }: ProducingSettings,
): Promise<void> {
  await session.begin();
  const { cluster } = session;
  const layout = (await cluster.topics([checkpointTopic])).get(checkpointTopic);
  if (!layout) return;
  const { partition, stored } = await session.askAgain(
    `read the checkpoint from topic ${checkpointTopic}`,
    () => findCheckpoint(cluster, checkpointKey, layout.leaders.length),
  );
  if (!stored) return;
  const log = new ProducerLog(bounds, session, () => undefined);
  const queue = new PartitionQueue(checkpointTopic, partition);
  const tables = [...stored.record.parts.keys()].map((table) => partKey(checkpointKey, table));
  for (const name of [...tables, checkpointKey]) log.add(queue, utf8(name), null, plainHeaders([]));
  await log.seal(true);
}
