// What is in a topic, as Apache's own client reads it, and as librdkafka's does where there is kcat: nothing here comes
// by the client under test.

import type { KafkaCluster } from "./kafka-cluster.ts";

export type Isolation = "read_committed" | "read_uncommitted";

export interface ReadOptions {
  readonly isolation: Isolation;
}

export interface TopicMessage {
  readonly partition: number;
  readonly offset: bigint;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly (readonly [name: string, value: Buffer | null])[];
  /** Milliseconds since 1970. */
  readonly timestamp: bigint;
}

/**
 * Every message up to the end as it is now, by partition and offset. To `read_committed` the end is the first
 * transaction that is still open.
 */
export async function readTopic(
  cluster: KafkaCluster,
  topic: string,
  { isolation }: ReadOptions,
): Promise<TopicMessage[]> {
  const messages: TopicMessage[] = [];
  await readTopics(cluster, [topic], { isolation }, (_, message) => messages.push(message));
  return messages.sort(byPartitionAndOffset);
}

/** As `readTopic`, of many topics or more messages than memory should hold: each is handed over, in the order of its partition. */
export async function readTopics(
  cluster: KafkaCluster,
  topics: readonly string[],
  { isolation }: ReadOptions,
  take: (topic: string, message: TopicMessage) => void,
): Promise<void> {
  let came = 0;
  const request = { topics, isolation, bootstrap: cluster.bootstrap.join(",") };
  const count = await cluster.tool.ask("read", request, (records) => {
    came += decode(records, take);
  });
  if (count !== came) throw new Error(`${came} of ${count} messages came`);
}

export interface TopicCount {
  readonly messages: number;
  /** How many different ones. */
  readonly keys: number;
}

/** For topics that are too large to be read into this process. */
export async function countTopic(
  cluster: KafkaCluster,
  topic: string,
  { isolation }: ReadOptions,
): Promise<TopicCount> {
  const request = { topics: [topic], isolation, bootstrap: cluster.bootstrap.join(",") };
  return (await cluster.tool.ask("count", request)) as TopicCount;
}

/**
 * Whether a message whose key ends with one of these is in the topic, or comes within the time. It is known as soon as
 * the message can be read.
 */
export async function awaitKey(
  cluster: KafkaCluster,
  topic: string,
  endings: readonly Uint8Array[],
  timeoutMs: number,
  { isolation }: ReadOptions,
): Promise<boolean> {
  const bootstrap = cluster.bootstrap.join(",");
  const request = {
    topics: [topic],
    isolation,
    bootstrap,
    timeoutMs,
    endings: endings.map((ending) => ending.toBase64()),
  };
  return (await cluster.tool.ask("await", request)) as boolean;
}

/** A message without its headers, which kcat cannot write without loss. */
export type KcatMessage = Omit<TopicMessage, "headers">;

export function hasKcat(): boolean {
  return Bun.which("kcat") !== null;
}

export async function readTopicByKcat(
  cluster: KafkaCluster,
  topic: string,
  { isolation }: ReadOptions,
): Promise<KcatMessage[]> {
  const format = "%p %o %T %K %S\n%k%s\n";
  const child = Bun.spawn(
    [
      ...["kcat", "-C", "-q", "-e", "-b", cluster.bootstrap.join(","), "-t", topic, "-o", "beginning"],
      ...["-X", `isolation.level=${isolation}`, "-X", "fetch.wait.max.ms=20", "-f", format],
    ],
    { stdin: "ignore", stdout: "pipe", stderr: "pipe" },
  );
  const [output, said, code] = await Promise.all([
    new Response(child.stdout).bytes(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`kcat failed with ${code}: ${said}`);
  return decodeKcat(Buffer.from(output)).sort(byPartitionAndOffset);
}

function byPartitionAndOffset(one: KcatMessage, other: KcatMessage): number {
  return one.partition - other.partition || Number(one.offset - other.offset);
}

/** A frame of KafkaTool.java, of one topic. Returns how many messages it has. */
function decode(bytes: Buffer, take: (topic: string, message: TopicMessage) => void): number {
  let at = 0;
  let count = 0;
  const int = (): number => {
    at += 4;
    return bytes.readInt32BE(at - 4);
  };
  const long = (): bigint => {
    at += 8;
    return bytes.readBigInt64BE(at - 8);
  };
  const blob = (): Buffer | null => {
    const length = int();
    if (length < 0) return null;
    at += length;
    return Buffer.from(bytes.subarray(at - length, at));
  };
  const topic = String(blob());
  while (at < bytes.length) {
    const partition = int();
    const offset = long();
    const timestamp = long();
    const key = blob();
    const value = blob();
    const headers = Array.from({ length: int() }, () => [blob()!.toString(), blob()] as const);
    take(topic, { partition, offset, key, value, headers, timestamp });
    count++;
  }
  return count;
}

/** Lengths come before the bytes; -1 is null. */
function decodeKcat(bytes: Buffer): KcatMessage[] {
  const messages: KcatMessage[] = [];
  let at = 0;
  const blob = (length: number): Buffer | null => {
    if (length < 0) return null;
    at += length;
    return Buffer.from(bytes.subarray(at - length, at));
  };
  while (at < bytes.length) {
    const end = bytes.indexOf("\n", at);
    const [partition, offset, timestamp, keyLength, valueLength] = bytes
      .toString("latin1", at, end)
      .split(" ");
    at = end + 1;
    const key = blob(Number(keyLength));
    const value = blob(Number(valueLength));
    at += 1;
    messages.push({
      partition: Number(partition),
      offset: BigInt(offset!),
      key,
      value,
      timestamp: BigInt(timestamp!),
    });
  }
  return messages;
}
