// Verifies a webhook sink: the stored deliveries, deduplicated by key and reduced to the latest `_sm_version` of each
// row, must equal the source's tables. Postgres does the comparison. The JSON is read back into the table's own types
// in temporary tables of the source, so that no value passes through JavaScript.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { Delivery } from "./receiver.ts";
import type { TableDifference } from "./table-comparison.ts";
import { type ComparedTable, rowText, sqlName } from "./table-facts.ts";

const bodiesPerInsert = 500;
const maxExamples = 5;

/**
 * Compares every table, in order, within one transaction that is rolled back. `onlyAtSink` holds rows that were only
 * received.
 */
export async function compareReceived(
  source: Client,
  deliveries: ReadonlyMap<string, Delivery>,
  tables: readonly ComparedTable[],
): Promise<readonly TableDifference[]> {
  await source.query("begin");
  try {
    await loadInbox(source, [...deliveries.values()]);
    const differences: TableDifference[] = [];
    for (const [index, table] of tables.entries()) {
      await materialise(source, table, index);
      differences.push(await compare(source, table, index));
    }
    return differences;
  } finally {
    await source.query("rollback");
  }
}

async function loadInbox(client: Client, deliveries: readonly Delivery[]): Promise<void> {
  await client.query(`create temporary table inbox (schema text, name text, line json) on commit drop`);
  for (let start = 0; start < deliveries.length; start += bodiesPerInsert) {
    const chunk = deliveries.slice(start, start + bodiesPerInsert);
    await client.query(
      `insert into inbox
       select d.schema, d.name, r.value
         from unnest($1::text[], $2::text[], $3::json[]) as d (schema, name, body),
              json_array_elements(case json_typeof(d.body) when 'array' then d.body else json_build_array(d.body) end) r`,
      [chunk.map((d) => d.schema), chunk.map((d) => d.table), chunk.map((d) => d.body)],
    );
  }
}

/**
 * Creates `received_<index>` with the rows that result from the deliveries. `shape_<index>` has the table's row type,
 * except that bytea is text, because JSON carries it in base64.
 */
async function materialise(client: Client, table: ComparedTable, index: number): Promise<void> {
  const isBinary = (column: string) => table.binaryColumns.includes(column);
  const shape = table.columns.map((c) => `${isBinary(c) ? "null::text as " : ""}${escapeIdentifier(c)}`);
  const values = table.columns.map((c) =>
    isBinary(c)
      ? `decode(r.${escapeIdentifier(c)}, 'base64') as ${escapeIdentifier(c)}`
      : `r.${escapeIdentifier(c)}`,
  );
  const key = table.primaryKey.map((column) => `line ->> ${escapeLiteral(column)}`);
  const latest = key.length === 0 ? "" : `distinct on (${key.join(", ")})`;
  const order = key.length === 0 ? "" : `order by ${key.join(", ")}, (line ->> '_sm_version')::bigint desc`;
  await client.query(
    `create temporary table shape_${index} on commit drop as select ${shape.join(", ")} from ${sqlName(table)} limit 0`,
  );
  await client.query(
    `create temporary table received_${index} on commit drop as
     select ${values.join(", ")}
       from (select ${latest} line from inbox
              where schema = ${escapeLiteral(table.schema)} and name = ${escapeLiteral(table.name)} ${order}) latest,
            lateral json_populate_record(null::shape_${index}, latest.line) r
      where not (latest.line ->> '_sm_deleted')::boolean`,
  );
}

async function compare(client: Client, table: ComparedTable, index: number): Promise<TableDifference> {
  const atSource = `select ${rowText(table.columns)} as line from ${sqlName(table)}`;
  const received = `select ${rowText(table.columns)} as line from received_${index}`;
  return {
    table: `${table.schema}.${table.name}`,
    sourceRows: await count(client, sqlName(table)),
    sinkRows: await count(client, `received_${index}`),
    onlyAtSource: await examples(client, `${atSource} except all ${received}`),
    onlyAtSink: await examples(client, `${received} except all ${atSource}`),
  };
}

async function count(client: Client, table: string): Promise<number> {
  const { rows } = await client.query<{ count: number }>(`select count(*)::int as count from ${table}`);
  return rows[0]?.count ?? 0;
}

async function examples(client: Client, query: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ line: string }>(`${query} limit ${maxExamples}`);
  return rows.map((row) => row.line);
}
