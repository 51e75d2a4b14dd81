// Decides which tables can be copied beside the stream, and begins such copies. The others are copied between two batches.

import type { Client } from "pg";
import { dividedMark } from "../../../change/divided-mark.ts";
import { isIdentified, type Relation, type TableShape } from "../../../change/relation.ts";
import type { CopyBeside } from "../../sink.ts";
import type { ConnectorAtSink } from "../bookkeeping/connector-lock.ts";
import { takesBinary } from "../schema/binary-fit.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { keyIndexOf, readTargetTable, type TargetTable } from "../schema/target-table.ts";
import type { SinkTables } from "../sink-tables.ts";
import { type BesideFacts, createBesideTables } from "./beside-tables.ts";
import { type CopyBesideOptions, type FirstRecord, PostgresCopyBeside, targetFacts } from "./copy-beside.ts";
import type { TakenUp } from "./kept-copies.ts";
import { indexRows } from "./mend-list.ts";
import { besideSpoiled } from "./touched-keys.ts";

export interface CopiesBesideOptions {
  readonly connector: ConnectorAtSink;
  readonly naming: TargetNaming;
  readonly tables: SinkTables;
  readonly inTurn: CopyBesideOptions["inTurn"];
}

export interface BesideRequest {
  readonly table: TableShape;
  readonly mode: "merge" | "replace";
  /** Of its copy, which `stop` ends. */
  readonly inSession: CopyBesideOptions["inSession"];
  /** There is no session beside the one that applies. */
  readonly takesInTurn: boolean;
  readonly stop: AbortSignal;
}

/** Between two batches. Null: the table cannot be copied so. */
export async function beginCopyBeside(
  options: CopiesBesideOptions,
  request: BesideRequest,
): Promise<CopyBeside | null> {
  const { tables } = options;
  const { table } = request;
  if (!isSettled(tables, table) || !isIdentified(table.relation)) return null;
  return await beginNoted(options, request, null);
}

/** As `beginCopyBeside`, of a table that is ready for its rows. */
export async function beginNoted(
  { connector, naming, tables, inTurn }: CopiesBesideOptions,
  { table, mode, inSession, takesInTurn, stop }: BesideRequest,
  first: FirstRecord | null,
): Promise<PostgresCopyBeside | null> {
  const { relation } = table;
  const sharedAs = naming.sharedAs(relation);
  const begun = await inTurn(async (client) => {
    const target = await readTargetTable(client, naming.target(relation));
    const form = target && takesAsItIs(target, relation) ? formOf(target, relation) : null;
    if (target === null || form === null) return null;
    const facts = { ...(await factsOf(client, connector, tables, table, target)), sharedAs };
    const kept = await tables.kept.takeUp(client, facts);
    return {
      target,
      form,
      kept: kept ?? (await makeTables(client, connector, tables, facts, target, table, takesInTurn)),
    };
  });
  if (begun === null) return null;
  const isGoingOn = () => (first ? isFirstGoingOn(tables, relation) : isFollowed(tables, relation));
  const requireFollowed = () => {
    if (!isGoingOn() || naming.sharedAs(relation) !== sharedAs)
      throw besideSpoiled(relation, "was left out, or is to be copied anew,");
  };
  return new PostgresCopyBeside({
    // Which of the rows that it did not bring are this table's own is not known.
    ...{ connector, table, mode: sharedAs === null ? mode : "merge" },
    ...{ inSession, inTurn, requireFollowed, takesInTurn, first, stop },
    ...{ keptCopies: tables.kept, touchedKeys: tables.touched, ...begun },
  });
}

/** With nothing in them: each key that the stream touches from here on is noted. */
async function makeTables(
  client: Client,
  { connectorId }: ConnectorAtSink,
  { touched: touchedKeys }: SinkTables,
  facts: BesideFacts,
  target: TargetTable,
  { relation }: TableShape,
  takesInTurn: boolean,
): Promise<TakenUp> {
  const tables = await inTransaction(client, async () => {
    const made = await createBesideTables(client, connectorId, target, relation);
    // Behind the rows it would be made in one go.
    if (takesInTurn) await indexRows(client, { tables: made, relation });
    return made;
  });
  const { tableId, keyNames, sharedAs, shape } = facts;
  const [name, notes] = [tables.name, tables.touched];
  const touched = touchedKeys.begin({ tableId, keyNames, sharedAs, shape, name, notes });
  return { tables, facts, touched, isKept: false, ranges: [] };
}

async function factsOf(
  client: Client,
  { connectorId }: ConnectorAtSink,
  { touched }: SinkTables,
  table: TableShape,
  target: TargetTable,
): Promise<Omit<BesideFacts, "sharedAs">> {
  const { id, key, columns, schema, name } = table.relation;
  // Another copy, and one that counts no more, are told apart by when they were noted.
  const { rows } = await client.query<{ stamp: string }>(
    "select point_lsn::text || ' ' || extract(epoch from copied_at)::text as stamp from millrace.table_copy " +
      "where connector_id = $1 and table_schema = $2 and table_name = $3",
    [connectorId, schema, name],
  );
  return {
    ...{ tableId: id, mark: dividedMark(table), stamp: rows[0]?.stamp ?? null },
    ...{ target: targetFacts(target), shape: touched.shapeOf(id) },
    keyNames: key.map((i) => columns[i]!.name),
  };
}

/** Nothing tells its rows apart: a copy takes the place of all of them. */
export function isWhollyReplaced({ key, isKeyedByHash }: Relation): boolean {
  return key.length === 0 || isKeyedByHash === true;
}

/** All its changes are applied, to rows that a copy has brought, and nothing has to be done to it before others. */
export function isSettled(tables: SinkTables, { relation, coverage }: TableShape): boolean {
  const isPublished = coverage?.isUnpublished !== true;
  // They are to be copied by their keys first.
  const isWhole = !tables.owed.has(relation.id) && tables.isReadyFor(relation);
  return isPublished && isWhole && isFollowed(tables, relation);
}

/** All its changes are applied, to rows that a copy has brought. */
function isFollowed({ ledger, setAside }: SinkTables, relation: Relation): boolean {
  return ledger.holds(relation) && !setAside.has(relation.id) && !ledger.isReplaced(relation);
}

/** Its first copy is on its way, and all its changes are applied. */
function isFirstGoingOn({ held, setAside }: SinkTables, relation: Relation): boolean {
  held.requireSound(relation);
  return held.isBeingCopied(relation) && !held.has(relation.id) && !setAside.has(relation.id);
}

/** Its rows can be found and written by the relation's key. */
function takesAsItIs(target: TargetTable, relation: Relation): boolean {
  const key = relation.key.map((i) => relation.columns[i]!.name);
  const index = keyIndexOf(target, relation);
  const isExact = index?.columns.length === key.length && index.columns.every(({ isLoose }) => !isLoose);
  const isWritable = relation.columns.every(({ name }) => {
    const column = target.columns.find((other) => other.name === name);
    return column && !column.generated && (key.includes(name) ? column.notNull : !column.isFixed);
  });
  return isExact && isWritable;
}

/** Null: what a type of the user's own makes of text is told where the table is copied whole. */
function formOf(target: TargetTable, relation: Relation): "binary" | "text" | null {
  if (takesBinary(target, relation)) return "binary";
  return relation.columns.some(({ typeDefinitions }) => typeDefinitions) ? null : "text";
}

async function inTransaction<T>(client: Client, action: () => Promise<T>): Promise<T> {
  await client.query("begin");
  try {
    const result = await action();
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
}
