// Whether the topics of a connector in native form hold each change of its tables exactly once, in the order of its key. The source notes
// every change in a log of its own, and stamps every row that it writes, so that each message can be found there.
// table-check.ts says which messages are right.

import type { KafkaCluster } from "./kafka-cluster.ts";
import { readTopic } from "./kafka-reader.ts";
import type { Row } from "./key-check.ts";
import { checkTable, nothingFound, type TopicFindings } from "./table-check.ts";

export const oracleSql = `
create schema audit;
create sequence audit.stamp;
create table audit.log (seq bigserial primary key, tbl text not null, id int not null, op text not null, n int8 not null);
create function audit.stamp() returns trigger language plpgsql as $$ begin new.n := nextval('audit.stamp'); return new; end $$;
create function audit.note() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' or (tg_op = 'UPDATE' and new.id <> old.id) then
    insert into audit.log (tbl, id, op, n) values (tg_table_name, old.id, 'd', old.n);
  end if;
  if tg_op <> 'DELETE' then insert into audit.log (tbl, id, op, n) values (tg_table_name, new.id, 'w', new.n); end if;
  return null;
end $$;
create table nudge (id int primary key, n int not null);
insert into nudge values (1, 0);`;

/** Of a connector: what the oracle writes is not sent. */
export const oracleCatalog = {
  default_action: "Include",
  schemas: [{ name: "audit", action: "Exclude", tables: [] }],
};

/** A table that the oracle knows, with rows 1 to `rows`, which the log has in this order. */
export function oracleTableSql(table: string, rows: number): string {
  return `create table ${table} (id int primary key, n int8 not null, v int8 not null default 0, pad text);
    create trigger stamp before insert or update on ${table} for each row execute function audit.stamp();
    create trigger note after insert or update or delete on ${table} for each row execute function audit.note();
    insert into ${table} select i, 0, 0, repeat('x', i % 50) from generate_series(1, ${rows}) i order by i;`;
}

export interface OracleOptions {
  /** Messages may come again, with the same Idempotency-Key and value. */
  readonly atLeastOnce?: boolean;
  readonly topic?: (table: string) => string;
}

export interface OracleReport extends TopicFindings {
  readonly messages: number;
  readonly changes: number;
}

type Query = <R extends object>(sql: string) => Promise<R[]>;

/** Call it when nothing is under way. Throws what is wrong, the first few of it. */
export async function checkTopics(
  cluster: KafkaCluster,
  query: Query,
  tables: readonly string[],
  options: OracleOptions = {},
): Promise<OracleReport> {
  const total = { messages: 0, changes: 0, ...nothingFound() };
  const wrong: string[] = [];
  for (const table of tables) {
    const topic = options.topic?.(table) ?? `millrace.public.${table}`;
    const messages = await readTopic(cluster, topic, { isolation: "read_committed" });
    const log = await query<{ seq: string; id: number; op: string; n: string }>(
      `select seq, id, op, n from audit.log where tbl = '${table}' order by seq`,
    );
    const rows = await query<Row>(`select id, n::float8 as n, v::float8 as v, pad from ${table}`);
    const changes = log.map(({ id, op, n }) => ({ id, n: op === "d" ? null : Number(n) }));
    const found = checkTable({ table, changes, rows, messages }, options.atLeastOnce ?? false);
    wrong.push(...found.wrong);
    for (const name of Object.keys(nothingFound()) as (keyof TopicFindings)[]) total[name] += found[name];
    total.messages += messages.length;
    total.changes += log.length;
  }
  if (wrong.length > 0) throw new Error(`${wrong.length} wrong: ${wrong.slice(0, 5).join("\n")}`);
  return total;
}
