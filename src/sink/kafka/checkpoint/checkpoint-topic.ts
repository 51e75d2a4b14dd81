// Reads a connector's record from the compacted topic of checkpoints. The record is what the last committed transaction left: a message of
// the connector's key, and one for each table that it holds something of. What was aborted, or is not decided, does not count.
//
// Compaction and order hold within a partition: of one key's messages in two partitions none is the newer. So all of a record are in one
// partition. A new record's does not depend on how many partitions there are, and a record stays where it is when some are added.
//
// A broker that stood still may not know yet that another leads in its place, and would show an older record. So a message without content
// goes to the partition before it is read, up to that message: no other than the leader can take it.

import { type Connection, fetchV12, listOffsetsV6, type RecordsBatch } from "@platformatic/kafka";
import type { SavedRecord } from "../../../connector/saved-record.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { ByteWriter } from "../../format/values/byte-writer.ts";
import type { Cluster } from "../client/cluster.ts";
import { partitionOf } from "../client/partitioner.ts";
import { produce } from "../client/produce-request.ts";
import { RecordBatch } from "../client/record-batch.ts";
import { plainHeaders } from "../message-headers.ts";
import { RefusedBatch } from "../produce/too-large.ts";
import { CommittedRecords } from "./committed-records.ts";

export const checkpointTopic = "millrace.checkpoints";
/** Names the run that wrote a record, in a header of its messages. */
export const runHeader = "millrace-run";
/** Names the last commit whose messages have receipts. */
export const receiptsHeader = "millrace-receipts";
/** Ids of parked messages that the transaction holds, and that the state may not know of yet. */
export const retriedHeader = "millrace-retried";

/** Between the key of a connector's record, which has no blank, and a table's name. */
const separator = " ";

export interface StoredCheckpoint {
  readonly record: SavedRecord;
  /** Which run wrote it; null: that is not said. */
  readonly run: string | null;
  /** Parked messages that were committed with it. */
  readonly retried: readonly string[];
  /** The last commit that had receipts, up to this record; null: none is known. */
  readonly receipts: string | null;
}

/** Of the topic, where millrace makes it. A topic never loses partitions. */
export const checkpointPartitions = 16;

/** Of messages that only show where a partition ends: no connector has it. They are tombstones, which compaction removes. */
const endKey = partKey("", "end");
const encoder = new TextEncoder();
/** How long the leader may wait for its replicas. */
const endTimeoutMs = 3_000;

const earliest = -2n;
const fetchBytes = 1024 * 1024;
const fetchWaitMs = 500;
const readUncommitted = 0;

export function utf8(text: string): ByteWriter {
  const bytes = encoder.encode(text);
  const out = new ByteWriter(bytes.length);
  out.all(bytes);
  return out;
}

export function partKey(recordKey: string, table: string): string {
  return `${recordKey}${separator}${table}`;
}

/** Where a connector's record is, or is to be. */
export interface CheckpointPlace {
  readonly partition: number;
  /** Null: nothing was ever committed under this key. */
  readonly stored: StoredCheckpoint | null;
}

/**
 * `partitions`: how many the topic has. Every transaction of the connector has to be decided before. Throws what the client throws, and
 * where a partition cannot be read: the record may be in it.
 */
export async function findCheckpoint(
  cluster: Cluster,
  recordKey: string,
  partitions: number,
): Promise<CheckpointPlace> {
  await cluster.topics([checkpointTopic]);
  const read = async (partition: number) => {
    return { partition, stored: await readPartition(cluster, partition, recordKey) };
  };
  const place = await read(placeOf(recordKey, partitions));
  if (place.stored) return place;
  const others = Array.from({ length: partitions }, (_, i) => i).filter((i) => i !== place.partition);
  const found = await Promise.all(others.map(read));
  return found.find(({ stored }) => stored) ?? place;
}

/** The same for every number of partitions, but for topics that somebody has made with fewer. */
function placeOf(recordKey: string, partitions: number): number {
  const key = Buffer.from(recordKey);
  const place = partitionOf(key, key.length, checkpointPartitions);
  return place < partitions ? place : 0;
}

async function readPartition(
  cluster: Cluster,
  partition: number,
  recordKey: string,
): Promise<StoredCheckpoint | null> {
  const records = new CommittedRecords();
  const connection = await cluster.nodeForQuestions(cluster.leader(checkpointTopic, partition));
  const end = await endOf(connection, partition);
  for (let at = await beginningOf(connection, partition); at < end; )
    at = await readFrom(connection, partition, at, records);
  const whole = records.values.get(recordKey);
  if (!whole) return null;
  const prefix = `${recordKey}${separator}`;
  const parts = [...records.values]
    .filter(([key]) => key.startsWith(prefix))
    .map(([key, { text }]) => [key.slice(prefix.length), text] as const);
  return {
    record: { text: whole.text, parts: new Map(parts) },
    run: whole.headers.get(runHeader) ?? null,
    retried: whole.headers.get(retriedHeader)?.split(",") ?? [],
    receipts: whole.headers.get(receiptsHeader) ?? null,
  };
}

/** The offset behind all that is committed by now. Throws where the broker does not lead the partition. */
async function endOf(connection: Connection, partition: number): Promise<bigint> {
  const batch = new RecordBatch();
  batch.add(utf8(endKey), null, plainHeaders([]));
  const nobody = { producerId: -1n, epoch: -1, sequence: -1, isTransactional: false };
  const sent = { topic: checkpointTopic, partition, bytes: batch.finish(nobody, "none", Date.now()) };
  const options = { transactionalId: null, acks: "All", timeoutMs: endTimeoutMs } as const;
  const { verdicts, words, offsets } = await produce(connection, [sent], options);
  const verdict = verdicts.get(sent) ?? null;
  if (verdict !== null) throw new RefusedBatch(verdict, checkpointTopic, words.get(sent));
  return BigInt(offsets.get(sent)!) + 1n;
}

async function beginningOf(connection: Connection, partition: number): Promise<bigint> {
  const partitions = [{ partitionIndex: partition, currentLeaderEpoch: -1, timestamp: earliest }];
  const answer = await listOffsetsV6.api.async(connection, -1, readUncommitted, [
    { name: checkpointTopic, partitions },
  ]);
  return answer.topics[0]!.partitions[0]!.offset;
}

/** Returns the offset behind what was read. */
async function readFrom(
  connection: Connection,
  partition: number,
  fetchOffset: bigint,
  records: CommittedRecords,
): Promise<bigint> {
  const wanted = {
    partition,
    currentLeaderEpoch: -1,
    fetchOffset,
    lastFetchedEpoch: -1,
    partitionMaxBytes: fetchBytes,
  };
  const topics = [{ topicId: checkpointTopic, partitions: [wanted] }];
  const answer = await fetchV12.api.async(
    connection,
    fetchWaitMs,
    1,
    fetchBytes,
    readUncommitted,
    0,
    -1,
    topics,
    [],
    "",
  );
  const found = answer.responses[0]?.partitions[0];
  const batches: readonly RecordsBatch[] = found?.records ?? [];
  let at = fetchOffset;
  for (const batch of batches) {
    records.add(batch, fetchOffset);
    at = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n;
  }
  if (at > fetchOffset) return at;
  throw new MillraceError("sink_unreachable", `Topic ${checkpointTopic} gave no record at ${fetchOffset}.`);
}
