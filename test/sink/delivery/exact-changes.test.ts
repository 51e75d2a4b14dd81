// What transactions make of all kinds of tables, at a webhook: a receiver that follows what it is sent holds the source's rows.

import { expect, test } from "bun:test";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

type Row = Record<string, unknown>;

/** Table, its key, and the columns that travel. */
const tables = [
  ["public/swapped", "id", "id, v"],
  ["public/a", "id", "id, v"],
  ["public/b", "id", "id, a"],
  ["public/bare", "_sm_row_hash", "x, y"],
  ["public/whole", "_sm_row_hash", "x, y"],
  ["public/p", "id", "id, v"],
  ["public/computed", "id", "id, n, s"],
  ["public/parent", "id", "id, v"],
  ["public/heir", "id", "id, v, w"],
  ["public/by_index", "u", "id, u, v"],
  ["public/untold", "_sm_row_hash", "id, v"],
  ["Odd schema/Odd table", "id", "id"],
] as const;

const schema = `
create table swapped (id int primary key, v text); insert into swapped select g, 'v' || g from generate_series(1, 9) g;
create table a (id int generated always as identity primary key, v int); create table b (id int primary key, a int references a);
insert into a (v) values (1), (2); insert into b values (1, 1), (2, 2);
create table bare (x int, y text); create table whole (x int, y text); alter table whole replica identity full; insert into whole values (1, 'a'), (2, 'b'), (3, null);
create table p (id int primary key, v text) partition by range (id); create table p1 partition of p for values from (0) to (100);
create table p2 (v text, id int not null primary key); alter table p attach partition p2 for values from (100) to (200); insert into p select g * 10, 'p' from generate_series(0, 19) g;
create table computed (id int primary key, n int, s int generated always as (n * 2) stored, t int generated always as (n * 3) virtual); insert into computed values (1, 1), (2, 2);
create table parent (id int primary key, v text); create table heir (w text, primary key (id)) inherits (parent); insert into parent values (1, 'parent'); insert into heir values (1, 'heir', 'w');
create table by_index (id int primary key, u text not null, v text); create unique index by_index_u on by_index (u); alter table by_index replica identity using index by_index_u;
insert into by_index select g, 'u' || g, 'v' from generate_series(1, 5) g;
create table untold (id int primary key, v text); alter table untold replica identity nothing; insert into untold values (1, 'a');
create unlogged table ul (id int primary key); create schema "Odd schema"; create table "Odd schema"."Odd table" (id int primary key)`;

const changes = [
  `begin; update swapped set id = -id where id = 1; update swapped set id = 1 where id = 2; update swapped set id = 2 where id = -1; commit;
   update swapped set id = id + 100 where id > 5; update swapped set v = 'again' where id = 106; delete from swapped where id = 107; insert into swapped values (7, 'new')`,
  `begin; insert into b values (3, 1); truncate a restart identity cascade; insert into a (v) values (9); insert into b values (5, 1); commit; truncate b; insert into b values (6, 1)`,
  "insert into bare values (1, 'a'), (2, null); update whole set y = 'z' where x = 1; delete from whole where x = 2; update whole set x = 4 where x = 3",
  `update p set v = 'u' where id in (10, 110); update p set id = id + 101 where id in (20, 30); begin; update p set id = 42 where id = 121; delete from p where id = 131;
   insert into p values (131, 'again'); commit`,
  "update computed set n = 9 where id = 1; insert into computed values (3, 3); delete from computed where id = 2",
  "update parent set v = v || '!'; insert into heir values (2, 'h', 'w'); delete from only parent",
  "update by_index set v = 'w' where id = 1; update by_index set u = 'other' where id = 2; update by_index set id = 33 where id = 3; delete from by_index where id = 4",
  `insert into untold values (2, 'b'); insert into ul values (1); create temporary table passing (id int primary key); insert into passing values (1);
   insert into "Odd schema"."Odd table" values (1), (2); delete from "Odd schema"."Odd table" where id = 1`,
];

/** The rows of each table, by the receiver's reading of what it was sent. */
function held(receiver: WebhookReceiver): ReadonlyMap<string, ReadonlyMap<string, Row>> {
  const rows = new Map<string, Map<string, Row>>();
  for (const { path, body } of receiver.deduplicated) {
    const table = decodeURIComponent(path.slice(1));
    const [, key = ""] = tables.find(([name]) => name === table) ?? [];
    const of = rows.get(table) ?? new Map<string, Row>();
    rows.set(table, of);
    for (const { op, before, after } of JSON.parse(body) as { op: string; before?: Row; after?: Row }[]) {
      if (op === "t") of.clear();
      else if (after) of.set(String(after[key]), after);
      else of.delete(String(before?.[key]));
    }
  }
  return rows;
}

function asText(rows: Iterable<Row>, columns: string): string[] {
  const names = columns.split(", ");
  return [...rows].map((row) => JSON.stringify(names.map((name) => row[name] ?? null))).toSorted();
}

test("a receiver holds the source's rows, whatever is done to tables of all kinds", async () => {
  await using server = await PostgresServer.start({ major: 18, settings: { fsync: "off" } });
  await server.createDatabase("kinds");
  await server.query(schema, "kinds");
  await using receiver = await WebhookReceiver.start();
  const connector = webhookConnector(receiver.url, {
    format: { debezium: { skipped_operations: "" } },
    batch: { max_batch_size: 5 },
  });
  const life = await WebhookLife.start(
    server.connection("kinds"),
    connector,
    new RecordStore(),
    { yes: false },
    {
      partitions_as_root: true,
      keyless_table_strategy: { dedup_by_row_hash: {} },
    },
  );
  await waitFor("the stream", () => life.phase === "realtime");
  for (const sql of changes) await server.query(sql, "kinds");
  const expected: Record<string, string[]> = {};
  for (const [table, , columns] of tables) {
    const [schemaName, name] = table.split("/");
    const only = name === "p" ? "" : "only ";
    const rows = await server.query<Row>(`select ${columns} from ${only}"${schemaName}"."${name}"`, "kinds");
    expected[table] = asText(rows, columns);
  }
  const found = () => {
    const rows = held(receiver);
    return Object.fromEntries(
      tables.map(([table, , columns]) => [table, asText(rows.get(table)?.values() ?? [], columns)]),
    );
  };
  await waitFor("the receiver to hold the source", () => Bun.deepEquals(found(), expected)).catch(() => {});
  expect(found()).toEqual(expected);
  expect([...held(receiver).keys()].toSorted()).toEqual(tables.map(([table]) => table).toSorted());
  await life.stop();
});
