// Finds what partitions do to the rows of a table that is carried by its root, without an event: rows of an attached
// partition come, rows of one that is detached, dropped or truncated go. Also checks that each partition's changes
// identify a row of the root. Pure.
// https://www.postgresql.org/docs/current/sql-createpublication.html (publish_via_partition_root)

import {
  isIdentified,
  keyNames,
  qualifiedName,
  type Relation,
  type TableShape,
} from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";

/** A table below a root. It holds rows, or has partitions itself. */
export interface Partition {
  readonly id: number;
  readonly parent: number;
  readonly schema: string;
  readonly name: string;
  /** Its changes are not logged, because it is a foreign or an unlogged table. */
  readonly notLogged: "foreign" | "unlogged" | null;
  /** The files of its rows; empty when they are in its own partitions. A truncation or rewrite changes it. */
  readonly files: string;
  /** The transaction and command that made it a partition. Attaching it again gives another one. */
  readonly link: string;
  /** It was created by CREATE TABLE … PARTITION OF, so it cannot have had rows before. */
  readonly isCreatedAsPartition: boolean;
  /** Postgres sends all columns of the old row. */
  readonly sendsWholeRows: boolean;
  /** The columns that Postgres sends of the old row; null: it refuses to publish updates. */
  readonly identity: readonly string[] | null;
}

/** What is remembered of a root's partitions, by OID. Stored as JSON. */
export interface RememberedPartitions {
  readonly partitions: Readonly<Record<string, readonly [files: string, link: string]>>;
  /** Stands for the rows that a copy of the table has; see `TableShape.contents`. */
  readonly contents: string;
}

export function rememberPartitions(partitions: readonly Partition[], contents: string): RememberedPartitions {
  return {
    partitions: Object.fromEntries(partitions.map(({ id, files, link }) => [id, [files, link]])),
    contents,
  };
}

/** A partition that may have rows from before it belonged to the root. */
export interface AttachedPartition {
  readonly partition: Partition;
  /** What attached it, or a table above it. */
  readonly links: readonly string[];
}

/** Partitions with rows that were attached since, alone or with a table above them. */
export function attachedPartitions(
  before: RememberedPartitions,
  partitions: readonly Partition[],
): readonly AttachedPartition[] {
  const byId = new Map(partitions.map((partition) => [partition.id, partition]));
  const links = (partition: Partition | undefined): readonly string[] => {
    if (!partition) return [];
    const isNew = !partition.isCreatedAsPartition && before.partitions[partition.id]?.[1] !== partition.link;
    return [...links(byId.get(partition.parent)), ...(isNew ? [partition.link] : [])];
  };
  return partitions
    .filter(({ files, notLogged }) => files !== "" && notLogged !== "foreign")
    .map((partition) => ({ partition, links: links(partition) }))
    .filter((attached) => attached.links.length > 0);
}

/** Whether rows may have gone, with a partition that was removed, emptied, or detached for a while. */
export function hasLostRows(before: RememberedPartitions, partitions: readonly Partition[]): boolean {
  const now = new Map(partitions.map((partition) => [String(partition.id), partition]));
  return Object.entries(before.partitions).some(([id, [files, link]]) => {
    const partition = now.get(id);
    return partition?.files !== files || partition.link !== link;
  });
}

/**
 * Whether a partition was attached with rows. `perhaps`: its rows may also have been written since, which events tell.
 */
export type RowsCame = "no" | "perhaps" | "yes";

/** What to do about rows that came or went: another copy, or a warning with the task to create. */
export function remedyForRows(came: RowsCame, isLost: boolean, isSmall: boolean): "copy" | "warn" | null {
  if (came === "yes") return "copy";
  if (came === "no" && !isLost) return null;
  return isSmall ? "copy" : "warn";
}

/** The first partition whose changes do not identify a row of the root; null: all do. */
export function unfitPartition(root: Relation, partitions: readonly Partition[]): Partition | null {
  if (!isIdentified(root)) return null;
  const key = keyNames(root);
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

/** For a table that is too large to be copied again without being asked. */
export function movedRowsWarning(table: TableShape): string {
  const { schema, name } = table.relation;
  return (
    `Table ${qualifiedName(table.relation)}: a partition was attached, detached, dropped, truncated or rewritten. Rows that ` +
    `came or went with it may differ at the sink. Create a Snapshot task to repair it: POST …/tasks ` +
    `{"Snapshot":{"schema":${JSON.stringify(schema)},"name":${JSON.stringify(name)},"truncate":true}}`
  );
}
