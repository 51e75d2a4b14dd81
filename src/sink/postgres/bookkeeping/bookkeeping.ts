// What the sink stores of a connector in the target database, so that it changes in the same transaction as the rows: the checkpoint and
// the record of each table's copy.

import type { Client } from "pg";
import { type Checkpoint, reachingTo } from "../../../change/checkpoint.ts";
import { formatLsn, type Lsn, parseLsn } from "../../../change/lsn.ts";
import { qualifiedName } from "../../../change/relation.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

export interface Bookkeeping {
  readonly checkpoint: Checkpoint | null;
  /** By `qualifiedName` at the source. */
  readonly copies: ReadonlyMap<string, TableCopyRecord>;
}

export interface TableCopyRecord {
  readonly schema: string;
  readonly name: string;
  /** `copyFingerprint` of the table that was copied. */
  readonly identity: string;
  /** Changes committed before it are in the copy. Zero: changes were missed since, so the next copy replaces it. */
  readonly point: Lsn;
  /** The copy was merged into rows that were there, or its ranges have several points. */
  readonly isMerged: boolean;
  /**
   * Not null: the ranges have several points, so that a row may be in none of them. Changes committed before `first` are in all ranges. Zero:
   * rows that were there before the copy need those changes as well.
   */
  readonly first: Lsn | null;
  /** The targets that it has been copied to, by `qualifiedName`; the last one is the current one. Empty: not known. */
  readonly targets: readonly string[];
  /** Changes were missed since the copy was made, and its rows are to be compared with the source's: any of them may be out of date. */
  readonly isUnproved: boolean;
}

interface CheckpointRow {
  readonly resume_lsn: string;
  readonly last_version: string;
  readonly source_log: string | null;
}

interface TableCopyRow {
  readonly table_schema: string;
  readonly table_name: string;
  readonly table_identity: string;
  readonly point_lsn: string;
  readonly is_merged: boolean;
  readonly first_lsn: string | null;
  readonly targets: readonly string[];
  readonly is_unproved: boolean;
}

export async function readBookkeeping(client: Client, connectorId: string): Promise<Bookkeeping> {
  const checkpoints = await client.query<CheckpointRow>(
    "select resume_lsn::text, last_version::text, source_log from millrace.checkpoint where connector_id = $1",
    [connectorId],
  );
  const copies = await client.query<TableCopyRow>(
    "select table_schema, table_name, table_identity, point_lsn::text, is_merged, first_lsn::text, targets, is_unproved " +
      "from millrace.table_copy where connector_id = $1",
    [connectorId],
  );
  const row = checkpoints.rows[0];
  const records = copies.rows.map(recordOf);
  return {
    checkpoint: row ? checkpointOf(row, records) : null,
    copies: new Map(records.map((copy) => [qualifiedName(copy), copy])),
  };
}

/** A copy has what was committed before its point, which the stream may not have come to. */
function checkpointOf(row: CheckpointRow, copies: readonly TableCopyRecord[]): Checkpoint {
  const place = { resumeLsn: parseLsn(row.resume_lsn), partial: null, lastVersion: BigInt(row.last_version) };
  const checkpoint = row.source_log === null ? place : { ...place, log: row.source_log };
  return reachingTo(
    checkpoint,
    copies.map(({ point }) => point),
  );
}

function recordOf(row: TableCopyRow): TableCopyRecord {
  return {
    schema: row.table_schema,
    name: row.table_name,
    identity: row.table_identity,
    point: parseLsn(row.point_lsn),
    isMerged: row.is_merged,
    first: row.first_lsn === null ? null : parseLsn(row.first_lsn),
    targets: row.targets,
    isUnproved: row.is_unproved,
  };
}

export async function insertCheckpoint(
  client: Client,
  connectorId: string,
  checkpoint: Checkpoint,
): Promise<void> {
  await client.query(
    "insert into millrace.checkpoint (connector_id, resume_lsn, last_version, source_log) values ($1, $2, $3, $4)",
    [connectorId, formatLsn(checkpoint.resumeLsn), checkpoint.lastVersion.toString(), checkpoint.log ?? null],
  );
}

export async function updateLog(client: Client, connectorId: string, log: string): Promise<void> {
  await client.query("update millrace.checkpoint set source_log = $2 where connector_id = $1", [
    connectorId,
    log,
  ]);
}

export interface MovedCheckpoint {
  readonly connectorId: string;
  readonly from: Lsn;
  readonly to: Lsn;
}

export interface TableFile {
  /** As SQL. */
  readonly name: string;
  readonly file: string;
}

const moveSql =
  "update millrace.checkpoint set resume_lsn = $3, updated_at = now() where connector_id = $1 and resume_lsn = $2";
/** For no table, for one, and for several: a function of a set takes long to begin. */
const filesSql = [
  "",
  " and pg_relation_filenode(to_regclass($4)) = $5::oid",
  " and not exists (select from unnest($4::text[], $5::oid[]) as t(name, file) " +
    "where pg_relation_filenode(to_regclass(t.name)) is distinct from t.file)",
] as const;

/**
 * Moves the checkpoint from where this run left it. Throws if it is elsewhere: another run has written, so these rows must not be committed.
 * Where `files` are given it returns false then, and also if one of these tables has another file.
 */
export async function moveCheckpoint(
  client: Client,
  { connectorId, from, to }: MovedCheckpoint,
  files: readonly TableFile[] = [],
): Promise<boolean> {
  const several = [files.map(({ name }) => name), files.map(({ file }) => file)];
  const kind = files.length > 1 ? 2 : files.length;
  const { rowCount } = await client.query({
    name: `millrace_move_checkpoint_${kind}`,
    text: moveSql + filesSql[kind],
    values: [connectorId, formatLsn(from), formatLsn(to), ...(kind > 1 ? several : several.flat())],
  });
  if (rowCount === 1 || files.length > 0) return rowCount === 1;
  throw new MillraceError(
    "sink_connection_lost",
    `The checkpoint of connector ${connectorId} is no longer at ${formatLsn(from)}: another run has moved it.`,
  );
}

/** `keepsTime`: `copied_at` stays, as the rows, or most of them, were copied before. */
export async function recordCopy(
  client: Client,
  connectorId: string,
  copy: TableCopyRecord,
  keepsTime = false,
): Promise<void> {
  const { schema, name, identity, point, isMerged, first, targets, isUnproved } = copy;
  await client.query(
    "insert into millrace.table_copy (connector_id, table_schema, table_name, table_identity, point_lsn, is_merged, first_lsn, targets, " +
      "is_unproved) values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (connector_id, table_schema, table_name) do update " +
      "set table_identity = excluded.table_identity, point_lsn = excluded.point_lsn, " +
      "is_merged = excluded.is_merged, first_lsn = excluded.first_lsn, targets = excluded.targets, is_unproved = excluded.is_unproved, " +
      `copied_at = ${keepsTime ? "table_copy.copied_at" : "now()"}`,
    [
      connectorId,
      schema,
      name,
      identity,
      formatLsn(point),
      isMerged,
      first === null ? null : formatLsn(first),
      targets,
      isUnproved,
    ],
  );
}

/** The table's rows were compared with the source's, and equal them. */
export async function recordProof(
  client: Client,
  connectorId: string,
  { schema, name }: Pick<TableCopyRecord, "schema" | "name">,
): Promise<void> {
  await client.query(
    "update millrace.table_copy set is_unproved = false where connector_id = $1 and table_schema = $2 and table_name = $3",
    [connectorId, schema, name],
  );
}

/** The copied table was renamed. A record under its new name is of a table that is gone, and is deleted. */
export async function renameCopy(
  client: Client,
  connectorId: string,
  copy: TableCopyRecord,
  to: Pick<TableCopyRecord, "schema" | "name" | "targets">,
): Promise<void> {
  await client.query(
    "delete from millrace.table_copy where connector_id = $1 and table_schema = $2 and table_name = $3",
    [connectorId, to.schema, to.name],
  );
  await client.query(
    "update millrace.table_copy set table_schema = $4, table_name = $5, targets = $6 " +
      "where connector_id = $1 and table_schema = $2 and table_name = $3",
    [connectorId, copy.schema, copy.name, to.schema, to.name, to.targets],
  );
}

/** Changes of these tables are missed from here on: they must be copied again. */
export async function voidCopies(
  client: Client,
  connectorId: string,
  tables: readonly { readonly schema: string; readonly name: string }[],
): Promise<void> {
  await client.query(
    "update millrace.table_copy c set point_lsn = '0/0' from unnest($2::text[], $3::text[]) as t(schema, name) " +
      "where c.connector_id = $1 and c.table_schema = t.schema and c.table_name = t.name",
    [connectorId, tables.map(({ schema }) => schema), tables.map(({ name }) => name)],
  );
}

/**
 * Forgets the connector's checkpoint: its next run begins anew. The records of its copies stay, as void, and those of its shapes, which the source's
 * OIDs may not fit any more (`keepsShapes`: they do).
 */
export async function forgetConnector(
  client: Client,
  connectorId: string,
  keepsShapes: boolean,
): Promise<void> {
  const emptied = ["set_aside", "owed_row", "checkpoint", ...(keepsShapes ? [] : ["table_history"])];
  const parts = [
    "update millrace.table_copy set point_lsn = '0/0' where connector_id = $1",
    ...(keepsShapes ? [] : ["update millrace.table_shape set is_former = true where connector_id = $1"]),
    ...emptied.map((table) => `delete from millrace.${table} where connector_id = $1`),
  ];
  // One statement, so that a crash cannot leave a part behind that still counts.
  await client.query(`with ${parts.map((part, i) => `part${i} as (${part})`).join(", ")} select`, [
    connectorId,
  ]);
}
