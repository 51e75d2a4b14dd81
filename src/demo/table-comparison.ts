// Verifies a Postgres sink: each table must hold the same rows as at the source, compared by the text of every value.

import type { Client } from "pg";
import { type ComparedTable, rowText, sqlName } from "./table-facts.ts";

/** The result for one table. Rows are printed as Postgres prints them, at most `maxExamples` for each side. */
export interface TableDifference {
  readonly table: string;
  readonly sourceRows: number;
  readonly sinkRows: number;
  readonly onlyAtSource: readonly string[];
  readonly onlyAtSink: readonly string[];
}

const maxExamples = 5;

export function isEqual(difference: TableDifference): boolean {
  return difference.onlyAtSource.length === 0 && difference.onlyAtSink.length === 0;
}

/** Describes the result on one line, followed by example rows. */
export function describeDifference(difference: TableDifference): string {
  const examples = [
    ...difference.onlyAtSource.map((row) => `  only at the source: ${row}`),
    ...difference.onlyAtSink.map((row) => `  only at the sink:   ${row}`),
  ];
  const rows = `${difference.sourceRows} rows at the source, ${difference.sinkRows} at the sink`;
  return [`${difference.table}: ${isEqual(difference) ? "equal" : "different"}, ${rows}`, ...examples].join(
    "\n",
  );
}

/** Compares every table, in order. A table that the sink does not have counts as empty. */
export async function compareTables(
  source: Client,
  sink: Client,
  tables: readonly ComparedTable[],
): Promise<readonly TableDifference[]> {
  const differences: TableDifference[] = [];
  for (const table of tables) differences.push(await compareTable(source, sink, table));
  return differences;
}

async function compareTable(source: Client, sink: Client, table: ComparedTable): Promise<TableDifference> {
  const [atSource, atSink] = await Promise.all([digest(source, table), digest(sink, table)]);
  const summary = {
    table: `${table.schema}.${table.name}`,
    sourceRows: atSource.rows,
    sinkRows: atSink.rows,
  };
  if (atSource.rows === atSink.rows && atSource.hash === atSink.hash) {
    return { ...summary, onlyAtSource: [], onlyAtSink: [] };
  }
  return { ...summary, ...difference(await readRows(source, table), await readRows(sink, table)) };
}

interface Digest {
  readonly rows: number;
  readonly hash: string | null;
}

async function digest(client: Client, table: ComparedTable): Promise<Digest> {
  if (!(await tableExists(client, table))) return { rows: 0, hash: null };
  const { rows } = await client.query<Digest>(
    `select count(*)::int as rows, md5(string_agg(line, E'\\n' order by line collate "C")) as hash
       from (select ${rowText(table.columns)} as line from ${sqlName(table)}) lines`,
  );
  return rows[0] ?? { rows: 0, hash: null };
}

async function readRows(client: Client, table: ComparedTable): Promise<readonly string[]> {
  if (!(await tableExists(client, table))) return [];
  const { rows } = await client.query<{ line: string }>(
    `select ${rowText(table.columns)} as line from ${sqlName(table)}`,
  );
  return rows.map((row) => row.line);
}

async function tableExists(client: Client, table: ComparedTable): Promise<boolean> {
  const { rows } = await client.query<{ found: string | null }>("select to_regclass($1) as found", [
    sqlName(table),
  ]);
  return rows[0]?.found !== null;
}

/** The rows that one side has more often than the other. */
function difference(atSource: readonly string[], atSink: readonly string[]) {
  const surplus = new Map<string, number>();
  for (const row of atSource) surplus.set(row, (surplus.get(row) ?? 0) + 1);
  for (const row of atSink) surplus.set(row, (surplus.get(row) ?? 0) - 1);
  const where = (matches: (count: number) => boolean) =>
    [...surplus].flatMap(([row, count]) => (matches(count) ? [row] : [])).slice(0, maxExamples);
  return { onlyAtSource: where((count) => count > 0), onlyAtSink: where((count) => count < 0) };
}
