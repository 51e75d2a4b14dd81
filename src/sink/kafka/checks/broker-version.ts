// Tells Kafka's version from what brokers say they can do. Pure.

export interface BrokerFeatures {
  /** Level of the cluster's metadata.version; null: it has none (ZooKeeper, or another broker of this protocol). */
  readonly metadataVersion: number | null;
  /** The newest version of each request that is taken, by its number. */
  readonly newest: ReadonlyMap<number, number>;
}

/** The first level of each release, from 3.0 to 3.9 and from 4.0 on: org.apache.kafka.server.common.MetadataVersion. */
const firstLevels = [1, 2, 3, 4, 8, 9, 12, 15, 20, 21, 22, 26, 28, 30] as const;

/** What the sink sends, as the first version of Kafka that takes it: https://kafka.apache.org/protocol#protocol_messages */
const needed: Readonly<Record<string, readonly [request: number, version: number]>> = {
  Produce: [0, 9],
  Fetch: [1, 12],
  ListOffsets: [2, 6],
  Metadata: [3, 9],
  FindCoordinator: [10, 3],
  CreateTopics: [19, 6],
  InitProducerId: [22, 4],
  AddPartitionsToTxn: [24, 3],
  EndTxn: [26, 3],
};

/** The version that all brokers of the cluster have agreed upon: they may be newer. */
export function versionText({ metadataVersion }: BrokerFeatures, brokers: number): string {
  const count = `${brokers} broker${brokers === 1 ? "" : "s"}`;
  if (metadataVersion === null) return `Kafka, ${count}`;
  const index = firstLevels.findLastIndex((level) => level <= metadataVersion);
  const release = index < 0 ? "" : ` ${index < 10 ? `3.${index}` : `4.${index - 10}`}`;
  return `Kafka${release} (metadata.version ${metadataVersion}), ${count}`;
}

/** Names of requests that the brokers do not take in the version that the sink sends. */
export function missingRequests({ newest }: BrokerFeatures): readonly string[] {
  return Object.keys(needed).filter((name) => {
    const [request, version] = needed[name]!;
    return (newest.get(request) ?? -1) < version;
  });
}
