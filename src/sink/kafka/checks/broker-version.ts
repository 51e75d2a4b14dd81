// Tells Kafka's version from what brokers say they can do. Pure.

export interface BrokerFeatures {
  /** Level of the cluster's metadata.version; null: it has none (ZooKeeper, or another broker of this protocol). */
  readonly metadataVersion: number | null;
  /** The newest version of each request that is taken, by its number. */
  readonly newest: ReadonlyMap<number, number>;
}

/** The first level of each release: org.apache.kafka.server.common.MetadataVersion. */
const releases: readonly (readonly [level: number, release: string])[] = [
  ...([
    [1, "3.0"],
    [2, "3.1"],
    [3, "3.2"],
    [4, "3.3"],
    [8, "3.4"],
    [9, "3.5"],
    [12, "3.6"],
  ] as const),
  ...([
    [15, "3.7"],
    [20, "3.8"],
    [21, "3.9"],
    [22, "4.0"],
    [26, "4.1"],
    [28, "4.2"],
    [30, "4.3"],
  ] as const),
];

/** What the sink sends, as the first version of Kafka that takes it: https://kafka.apache.org/protocol#protocol_messages */
const needed: readonly (readonly [request: number, version: number, name: string])[] = [
  ...([
    [0, 9, "Produce"],
    [1, 12, "Fetch"],
    [2, 6, "ListOffsets"],
    [3, 9, "Metadata"],
  ] as const),
  ...([
    [10, 3, "FindCoordinator"],
    [19, 6, "CreateTopics"],
    [22, 4, "InitProducerId"],
  ] as const),
  ...([
    [24, 3, "AddPartitionsToTxn"],
    [26, 3, "EndTxn"],
  ] as const),
];

/** The version that all brokers of the cluster have agreed upon: they may be newer. */
export function versionText({ metadataVersion }: BrokerFeatures, brokers: number): string {
  const count = `${brokers} broker${brokers === 1 ? "" : "s"}`;
  if (metadataVersion === null) return `Kafka, ${count}`;
  const release = releases.findLast(([level]) => level <= metadataVersion)?.[1];
  return `Kafka ${release ?? ""}`.trim().concat(` (metadata.version ${metadataVersion}), ${count}`);
}

/** Names of requests that the brokers do not take in the version that the sink sends. */
export function missingRequests({ newest }: BrokerFeatures): readonly string[] {
  return needed
    .filter(([request, version]) => (newest.get(request) ?? -1) < version)
    .map(([, , name]) => name);
}
