// A copy that is made in ranges of the table's pages: each lands in a side table, in a transaction of its own with its record, so that
// a reader sees nothing of it and it is there after any death. When all are there, they take their place together.

import { type Client, escapeIdentifier } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import { dividedMark } from "../../../change/divided-mark.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import { isIdentified, type Relation, type TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { CopyRequest } from "../../sink.ts";
import { withLateChecks } from "../apply/late-checks.ts";
import { withRefusedKey } from "../apply/refused-key.ts";
import { type ConnectorAtSink, lockForCopy } from "../bookkeeping/connector-lock.ts";
import { takesBinary } from "../schema/binary-fit.ts";
import { addKey, addKeyOf, createSchemas, createTable, resolveTypes } from "../schema/table-schema.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";
import { copyIn } from "./copy-in.ts";
import { mergeCopy } from "./copy-merge.ts";
import {
  type CopiedRange,
  type DividedCopy,
  dropDivided,
  recordDivided,
  recordRange,
} from "./divided-copies.ts";
import { type CopyOutcome, fitExisting, hasRows, type KnownTable, recordOutcome } from "./table-copy.ts";

/** One copy in ranges: what is copied, where it goes, and where its rows lie until then. */
export interface RangeCopy {
  readonly connector: ConnectorAtSink;
  readonly table: TableShape;
  readonly target: TargetName;
  readonly side: TargetName;
}

/**
 * Makes the side table, unless `begun` holds ranges that count still. Returns the form that rows can come in; null: the table is to
 * be copied whole, and nothing is left of ranges.
 */
export async function beginRanges(
  client: Client,
  { connector, table, target, side }: RangeCopy,
  begun: DividedCopy | null,
): Promise<{ readonly form: TupleForm; readonly goesOn: boolean } | null> {
  const { relation } = table;
  await client.query("begin");
  await lockForCopy(client, connector);
  const isPossible = isDivisible(await readTargetTable(client, target), relation);
  const there = begun && isPossible ? await readTargetTable(client, side) : null;
  const goesOn = there !== null && (await isAsMade(client, there, relation));
  if (!goesOn) {
    await dropDivided(client, connector.connectorId, relation.id, side);
    if (isPossible) {
      await createTable(client, side, table);
      await recordDivided(client, connector.connectorId, relation.id, dividedMark(table));
    }
  }
  const made = isPossible ? await readTargetTable(client, side) : null;
  const form = made && formOf(made, relation);
  if (made && !form) await dropDivided(client, connector.connectorId, relation.id, side);
  await client.query("commit");
  return form && { form, goesOn };
}

/**
 * Rows of ranges as of several points may hold a value of another unique index twice, or refer to a row that is not there yet, until
 * the stream has brought what lies between.
 */
function isDivisible(target: TargetTable | null, relation: Relation): boolean {
  if (!isIdentified(relation) || relation.key.length === 0) return false;
  if (target === null) return true;
  const key = relation.key.map((i) => relation.columns[i]!.name);
  const isKey = target.uniqueKeys.every(
    ({ columns }) => columns.length === key.length && columns.every(({ column }) => key.includes(column)),
  );
  return isKey && target.refersTo.length === 0 && !target.isReferred;
}

/** Types may have been made anew at the sink since. */
async function isAsMade(client: Client, side: TargetTable, { columns }: Relation): Promise<boolean> {
  const types = await resolveTypes(client, columns);
  return columns.every(({ name }, i) =>
    side.columns.some((column) => column.name === name && column.typeOid === types[i]!.oid),
  );
}

/** Null: what a type of the user's own makes of text is told where the table is copied whole. */
function formOf(side: TargetTable, relation: Relation): TupleForm | null {
  if (takesBinary(side, relation)) return "binary";
  return relation.columns.some(({ typeDefinitions }) => typeDefinitions) ? null : "text";
}

/** All in one transaction: rows, and that the range was copied. */
export async function copyRange(
  client: Client,
  { connector, table, side }: RangeCopy,
  { form, chunks, lsn: point }: CopyRequest,
  range: PageRange,
): Promise<CopiedRange> {
  const columns = sqlList(table.relation.columns.map((column) => column.name));
  await client.query("begin");
  await lockForCopy(client, connector);
  const rows = await copyIn(client, `copy ${sqlName(side)} (${columns}) from stdin (format ${form})`, chunks);
  const copied = { ...range, point, rows };
  await recordRange(client, connector.connectorId, table.relation.id, copied);
  await client.query("commit");
  return copied;
}

/** All in one transaction: the rows take their place, and that the copy was made. */
export async function joinRanges(
  client: Client,
  config: PostgresSinkConfig,
  copy: RangeCopy & Pick<CopyRequest, "mode">,
  ranges: readonly CopiedRange[],
  known: KnownTable,
): Promise<CopyOutcome> {
  const { connector, table, target, side } = copy;
  const points = ranges.map(({ point }) => point).sort((a, b) => (a < b ? -1 : 1));
  const [first = zeroLsn, point = first] = [points[0], points.at(-1)];
  const areMixed = first !== point;
  await client.query("begin");
  await lockForCopy(client, connector);
  const existing = await readTargetTable(client, target);
  const { hasOthers, fitted } =
    existing === null
      ? { hasOthers: false, fitted: null }
      : await putOver(client, config, copy, existing, areMixed, known);
  if (fitted === null) await putInPlace(client, copy, areMixed);
  const made = { point, isMerged: areMixed || hasOthers, first: firstOf(areMixed, hasOthers, first) };
  const outcome = await recordOutcome(client, connector, table, made, known, fitted, null);
  await dropDivided(client, connector.connectorId, table.relation.id, side);
  await client.query("commit");
  return { rows: ranges.reduce((sum, { rows }) => sum + rows, 0), ...outcome };
}

/** See `TableCopyRecord`. */
function firstOf(areMixed: boolean, hasOthers: boolean, first: Lsn): Lsn | null {
  if (!areMixed) return null;
  return hasOthers ? zeroLsn : first;
}

/** The side table becomes the table. Its key is made last: rows go in faster without. */
async function putInPlace(
  client: Client,
  { table, target, side }: RangeCopy,
  areMixed: boolean,
): Promise<void> {
  await createSchemas(client, new Set([target.schema]));
  await client.query(`alter table ${sqlName(side)} set schema ${escapeIdentifier(target.schema)}`);
  const moved = { schema: target.schema, name: side.name };
  await client.query(`alter table ${sqlName(moved)} rename to ${escapeIdentifier(target.name)}`);
  await grantDefaults(client, target);
  if (!areMixed) return await addKeyOf(client, target, table);
  await client.query("savepoint millrace_key");
  try {
    await addKeyOf(client, target, table);
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.uniqueViolation) throw error;
    await client.query("rollback to savepoint millrace_key");
    await keepOneOfEach(client, target, table.relation);
    await addKeyOf(client, target, table);
  }
}

/** What a table gets that is made in its schema. */
const defaultGrantsQuery = `
select format('grant %s on table %s to %s%s', g.privilege_type, $2::text,
  case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end,
  case when g.is_grantable then ' with grant option' else '' end) as sql
from pg_default_acl d join pg_roles r on r.oid = d.defaclrole and r.rolname = current_user
cross join lateral aclexplode(d.defaclacl) g
where d.defaclnamespace = to_regnamespace($1) and d.defaclobjtype = 'r'`;

async function grantDefaults(client: Client, target: TargetName): Promise<void> {
  const { rows } = await client.query<{ sql: string }>(defaultGrantsQuery, [
    escapeIdentifier(target.schema),
    sqlName(target),
  ]);
  for (const { sql } of rows) await client.query(sql);
}

/**
 * Ranges as of several points may hold a row twice: it lay in one, and in another later. Which of them stays does not matter, as the
 * stream brings what it became.
 */
async function keepOneOfEach(client: Client, table: TargetName, relation: Relation): Promise<void> {
  const key = sqlList(relation.key.map((i) => relation.columns[i]!.name));
  await client.query(
    `delete from ${sqlName(table)} where ctid in (select unnest((array_agg(ctid))[2:]) from ${sqlName(table)} ` +
      `group by ${key} having count(*) > 1)`,
  );
}

/** The rows go into a table that is there. `hasOthers`: beside those that it holds otherwise. */
async function putOver(
  client: Client,
  config: PostgresSinkConfig,
  copy: RangeCopy & Pick<CopyRequest, "mode">,
  before: TargetTable,
  areMixed: boolean,
  known: KnownTable,
): Promise<{ readonly hasOthers: boolean; readonly fitted: TargetTable }> {
  const { table, mode, side } = copy;
  const { relation } = table;
  const knownAlone = { ...known, isShared: false };
  const { existing, isKeyChanged, key } = await fitExisting(client, config, before, copy, knownAlone);
  if (areMixed) await keepOneOfEach(client, side, relation);
  const isEmpty = mode === "initial" && !(await hasRows(client, existing));
  const hasOthers = !isEmpty && mode !== "replace" && !isKeyChanged;
  const staging = await stagingFor(client, existing, side, relation);
  const columns = sqlList(relation.columns.map(({ name }) => name));
  const write = async () => {
    if (!isEmpty) return await mergeCopy(client, existing, { staging, relation, isMerged: hasOthers });
    await client.query(
      `insert into ${sqlName(existing.target)} (${columns}) overriding system value select ${columns} from ${staging}`,
    );
  };
  const written = { target: existing, relation, rows: staging, isMerged: hasOthers };
  await withRefusedKey(client, written, () => withLateChecks(client, existing, write));
  if (key) await addKey(client, existing.target, key);
  return { hasOthers, fitted: existing };
}

/** Where the table has other types than the source's, its own input makes the values of their text, as it would in a copy. */
async function stagingFor(
  client: Client,
  existing: TargetTable,
  side: TargetName,
  { columns }: Relation,
): Promise<string> {
  const made = await readTargetTable(client, side);
  const typeOf = (table: TargetTable | null, name: string) =>
    table?.columns.find((column) => column.name === name);
  const values = columns.map(({ name }) => {
    const [from, to] = [typeOf(made, name), typeOf(existing, name)];
    const column = escapeIdentifier(name);
    if (!to || from?.typeOid === to.typeOid) return column;
    return `${column}::text::${to.plainType} as ${column}`;
  });
  const list = sqlList(columns.map(({ name }) => name));
  if (values.join(", ") === list) return sqlName(side);
  await client.query(
    `create temporary table millrace_copy on commit drop as select ${values.join(", ")} from ${sqlName(side)}`,
  );
  return "pg_temp.millrace_copy";
}
