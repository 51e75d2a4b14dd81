// Finds what the partitions of a table that is carried by its root do to its rows without an event: those of a partition that
// is attached come, those of one that is detached, dropped or truncated go. And whether each partition tells which row a change
// is of, as its root does. Pure.
// https://www.postgresql.org/docs/current/sql-createpublication.html (publish_via_partition_root)

import { isIdentified, qualifiedName, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";

/** A table below a root: one that holds rows, or that has partitions itself. */
export interface Partition {
  readonly id: number;
  readonly parent: number;
  readonly schema: string;
  readonly name: string;
  /** Its changes cannot be had: it is a foreign table, or is not written to the log. */
  readonly notLogged: "foreign" | "unlogged" | null;
  /** Where its rows are; empty when they are in its own partitions. Changes when it is truncated or rewritten. */
  readonly files: string;
  /** The transaction and the command that made it a partition: another when it is attached anew. */
  readonly link: string;
  /** It was made as a partition, by CREATE TABLE … PARTITION OF: it cannot have had rows before. */
  readonly isBorn: boolean;
  /** Of the old row Postgres sends all columns. */
  readonly sendsWholeRows: boolean;
  /** Columns that Postgres sends of the old row; null: it refuses to publish updates. */
  readonly identity: readonly string[] | null;
}

/** What is remembered of a root's partitions: by OID, files and link. */
export interface NotedPartitions {
  readonly partitions: Readonly<Record<string, readonly [files: string, link: string]>>;
  /** Names what a copy of the table is a copy of. */
  readonly contents: string;
}

export function notePartitions(partitions: readonly Partition[], contents: string): NotedPartitions {
  return {
    partitions: Object.fromEntries(partitions.map(({ id, files, link }) => [id, [files, link]])),
    contents,
  };
}

/** A partition that may hold rows from before it was one of the root's. */
export interface Newcomer {
  readonly partition: Partition;
  /** What attached it, or a table above it, since. */
  readonly links: readonly string[];
}

/** Partitions with rows that were attached since, by themselves or with a table above them. */
export function newcomers(noted: NotedPartitions, partitions: readonly Partition[]): readonly Newcomer[] {
  const byId = new Map(partitions.map((partition) => [partition.id, partition]));
  const links = (partition: Partition | undefined): readonly string[] => {
    if (!partition) return [];
    const isNew = !partition.isBorn && noted.partitions[partition.id]?.[1] !== partition.link;
    return [...links(byId.get(partition.parent)), ...(isNew ? [partition.link] : [])];
  };
  return partitions
    .filter(({ files, notLogged }) => files !== "" && notLogged !== "foreign")
    .map((partition) => ({ partition, links: links(partition) }))
    .filter((newcomer) => newcomer.links.length > 0);
}

/** Whether rows may have gone: with a partition that is no longer there, that was emptied, or that was away for a while. */
export function hasLostRows(noted: NotedPartitions, partitions: readonly Partition[]): boolean {
  const now = new Map(partitions.map((partition) => [String(partition.id), partition]));
  return Object.entries(noted.partitions).some(([id, [files, link]]) => {
    const partition = now.get(id);
    return partition?.files !== files || partition.link !== link;
  });
}

/** Whether a partition came with rows. Some that are there now may also have been written since, which changes tell. */
export type RowsCame = "no" | "perhaps" | "yes";

/** What is to be done about rows that came or went: another copy, or a warning that names the task. */
export function remedyForRows(came: RowsCame, isLost: boolean, isSmall: boolean): "copy" | "warn" | null {
  if (came === "yes") return "copy";
  if (came === "no" && !isLost) return null;
  return isSmall ? "copy" : "warn";
}

/** The first partition whose changes do not say which row of the root they are of; null: all do. */
export function unfitPartition(root: Relation, partitions: readonly Partition[]): Partition | null {
  if (!isIdentified(root)) return null;
  const key = root.key.map((i) => root.columns[i]!.name);
  const isFit = ({ files, notLogged, sendsWholeRows, identity }: Partition) =>
    files === "" ||
    notLogged !== null ||
    sendsWholeRows ||
    (identity !== null && key.length > 0 && key.every((name) => identity.includes(name)));
  return partitions.find((partition) => !isFit(partition)) ?? null;
}

export function unfitPartitionWarning(root: Relation, partition: Partition): string {
  return (
    `Partition ${qualifiedName(partition)} does not say which row of ${qualifiedName(root)} it changes, so of that table only ` +
    `inserts are carried. Run: ALTER TABLE ${sqlName(partition)} REPLICA IDENTITY FULL;`
  );
}

export function unloggedPartitionWarning(root: Relation, partition: Partition): string {
  const why =
    partition.notLogged === "foreign"
      ? "is a foreign table"
      : `is not written to the log. Run: ALTER TABLE ${sqlName(partition)} SET LOGGED;`;
  return `Changes of rows in partition ${qualifiedName(partition)} of ${qualifiedName(root)} are not carried: it ${why}`;
}

/** For a table that is too large to be copied again unasked. */
export function movedRowsWarning(table: TableShape): string {
  const { schema, name } = table.relation;
  return (
    `Table ${qualifiedName(table.relation)}: a partition was attached, detached, dropped, truncated or rewritten. Rows that ` +
    `came or went with it may differ at the sink. Create a Snapshot task to mend it: POST …/tasks ` +
    `{"Snapshot":{"schema":${JSON.stringify(schema)},"name":${JSON.stringify(name)},"truncate":true}}`
  );
}
