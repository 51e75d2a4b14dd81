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
  const request = { topic, isolation, bootstrap: cluster.bootstrap.join(",") };
  const count = await cluster.tool.ask("read", request, (records) => decode(records, messages));
  if (count !== messages.length) throw new Error(`${messages.length} of ${count} messages came`);
  return messages.sort(byPartitionAndOffset);
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

/** The frames of KafkaTool.java. */
function decode(bytes: Buffer, into: TopicMessage[]): void {
  let at = 0;
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
  while (at < bytes.length) {
    const partition = int();
    const offset = long();
    const timestamp = long();
    const key = blob();
    const value = blob();
    const headers = Array.from({ length: int() }, () => [blob()!.toString(), blob()] as const);
    into.push({ partition, offset, key, value, headers, timestamp });
  }
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
