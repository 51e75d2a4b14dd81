// What is known of thousands of tables is found by name and by OID, and not looked through for each of them.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import type { TableShape } from "../../../../src/change/relation.ts";
import { UndoLog } from "../../../../src/sink/postgres/apply/undo-log.ts";
import { CopyLedger } from "../../../../src/sink/postgres/bookkeeping/copy-ledger.ts";
import { ensureBookkeeping } from "../../../../src/sink/postgres/bookkeeping/ensure-bookkeeping.ts";
import { SetAsideTables } from "../../../../src/sink/postgres/bookkeeping/set-aside-tables.ts";
import { ShapeLedger } from "../../../../src/sink/postgres/bookkeeping/shape-ledger.ts";
import { claimTargets } from "../../../../src/sink/postgres/bookkeeping/table-claims.ts";
import { MigrationRefused } from "../../../../src/sink/postgres/refusals/migration-refused.ts";
import { TargetNaming } from "../../../../src/sink/postgres/schema/target-naming.ts";
import { usedMs, usedMsWith } from "../../../support/processor-time.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

const count = 10_000;
const tableOf = (i: number, name = `t${i}`) => relation(name, [["id", 20, "bigint"]], { id: 20_000 + i });
const copyOf = (i: number, name = `t${i}`) => ({
  schema: "public",
  name,
  identity: `${20_000 + i} public.${name}`,
  point: lsn(5n),
  first: null,
  isMerged: false,
  targets: [],
  isUnproved: i % 2 === 1,
});
const shapeOf = (i: number, name = `t${i}`) => ({
  tableId: 20_000 + i,
  schema: "public",
  name,
  since: lsn(5n),
  columns: [],
  key: null,
  displaced: null,
});

function ledger(): CopyLedger {
  return new CopyLedger("c", new TargetNaming(null), new UndoLog());
}

test("ten thousand tables of which half have a copy", () => {
  const copies = ledger();
  copies.load(Array.from({ length: count / 2 }, (_, i) => copyOf(i)));
  const tables = Array.from({ length: count }, (_, i) => tableOf(i));
  const began = usedMs();
  expect(tables.filter((table) => copies.holds(table))).toHaveLength(count / 2);
  expect(tables.filter(({ id }) => copies.pointOf(id) !== null)).toHaveLength(count / 2);
  expect(tables.filter(({ id }) => copies.isUnprovedById(id))).toHaveLength(count / 4);
  expect(usedMs() - began).toBeLessThan(500);
});

test("a copy is found under an earlier name of its table, until it is void or of another table", () => {
  const copies = ledger();
  copies.load([copyOf(1, "before"), copyOf(2)]);
  expect(copies.recordOf(tableOf(1, "after"))?.name).toBe("before");
  copies.add(copyOf(3, "before"));
  expect([copies.holds(tableOf(1, "after")), copies.pointOf(20_003)]).toEqual([false, lsn(5n)]);
  copies.voidKnown();
  expect([copies.holds(tableOf(2)), copies.pointOf(20_002)]).toEqual([false, null]);
});

test("the shapes of ten thousand tables", () => {
  const shapes = new ShapeLedger("c", new UndoLog());
  const began = usedMs();
  for (let i = 0; i < count; i++) shapes.add(shapeOf(i));
  for (let i = 0; i < count; i++)
    expect(shapes.named({ schema: "public", name: `t${i}` })?.tableId).toBe(20_000 + i);
  expect(usedMs() - began).toBeLessThan(500);
});

test("a shape that takes another one's name gives it back when that is rolled back", async () => {
  const undo = new UndoLog();
  const shapes = new ShapeLedger("c", undo);
  const client = { query: async () => ({ rows: [] }) } as never;
  for (const i of [1, 2]) shapes.add(shapeOf(i));
  const named = (name: string) => shapes.named({ schema: "public", name })?.tableId ?? null;
  await shapes.rename(client, shapes.of({ id: 20_001 })!, { schema: "public", name: "t2" });
  expect([named("t1"), named("t2"), shapes.of({ id: 20_002 })]).toEqual([null, 20_001, null]);
  undo.rolledBack("begin");
  expect([named("t1"), named("t2"), shapes.of({ id: 20_001 })?.name]).toEqual([20_001, 20_002, "t1"]);
});

test("a connector takes five thousand targets over, and voids the copies in them, and no others", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using client = await server.connect();
  await client.query("set search_path = ''");
  await ensureBookkeeping(client);
  const targets = Array.from({ length: 5_000 }, (_, i) => ({ schema: "public", name: `t${i}` }));
  await claimTargets(client, "before", targets, ledger());
  const copies = `insert into millrace.table_copy (connector_id, table_schema, table_name, table_identity, point_lsn, is_merged, targets)
    select connector, 'public', 't' || i, i, '0/1', false, targets from`;
  await client.query(
    `${copies} generate_series(0, 4999) i, lateral (values ('before', array['public.x', 'public.t' || i])) c (connector, targets)`,
  );
  await client.query(`${copies} (values (1, 'elsewhere', array['public.t1']), (5000, 'before', array['public.t1', 'public.y']),
    (5001, 'before', '{}')) c (i, connector, targets)`);
  const began = usedMsWith(server);
  await claimTargets(client, "after", targets, ledger());
  expect(usedMsWith(server) - began).toBeLessThan(1_000);
  const { rows } = await client.query(
    "select connector_id || ' ' || table_name as left from millrace.table_copy where point_lsn <> '0/0' order by 1",
  );
  expect(rows.map((row) => row.left)).toEqual(["before t5000", "elsewhere t1"]);
});

test("five thousand tables that are set aside together are told together", async () => {
  const told: number[] = [];
  const shapes = { of: () => null };
  const setAside = new SetAsideTables("c", ledger(), shapes, (tables) => told.push(tables.length));
  const client = { query: async () => ({ rows: [] }) } as never;
  const tables = Array.from({ length: 5_000 }, (_, i) => ({
    relation: tableOf(i),
  })) as unknown as TableShape[];
  const refuse = async (asked: readonly unknown[]) =>
    asked.map(() => new MigrationRefused("a view", ["drop it"]));
  const unreadable = tables.map((table) => ({ table, reason: "locked", isDue: false }));
  expect(await setAside.review(client, tables, tables, unreadable, refuse, lsn(5n))).toEqual([]);
  expect(told).toEqual([5_000]);
});
