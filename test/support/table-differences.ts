// The oracle of most tests: the sink equals the source, table by table, row by row of their text.

import type { Client } from "pg";

/** Permanent tables of `source` whose rows are others in `sink`, compared as text, by name. */
export async function tableDifferences(source: Client, sink: Client): Promise<object> {
  const { rows: tables } = await source.query<{ name: string; columns: string }>(
    `select c.oid::regclass::text as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
     from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) and c.relkind = 'r' and c.relpersistence = 'p' group by 1 order by 1`,
  );
  const entries: [string, { source: string[]; sink: string[] }][] = [];
  for (const { name, columns } of tables) {
    const sql = `select row(${columns ?? ""})::text as row from ${name} order by 1`;
    const texts = ({ rows }: { rows: { row: string }[] }) => rows.map(({ row }) => row);
    const wanted = texts(await source.query<{ row: string }>(sql));
    const found = await sink.query<{ row: string }>(sql).then(texts, (error) => [String(error)]);
    if (wanted.join("\n") !== found.join("\n")) entries.push([name, firstDifference(wanted, found)]);
  }
  return Object.fromEntries(entries);
}

/** Some of what differs: enough to see why. */
function firstDifference(source: readonly string[], sink: readonly string[]) {
  const inSink = new Set(sink);
  const inSource = new Set(source);
  return {
    source: source.filter((row) => !inSink.has(row)).slice(0, 5),
    sink: sink.filter((row) => !inSource.has(row)).slice(0, 5),
    counts: [source.length, sink.length],
  };
}
