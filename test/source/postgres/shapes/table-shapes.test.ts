// The columns and files of one catalog read are consistent: both are as of one moment.

import { expect, test } from "bun:test";
import { withPartitions } from "../../../../src/source/postgres/catalog/partitions.ts";
import { selectionOf } from "../../../../src/source/postgres/catalog/table-selection.ts";
import { readStorage, readTableShapes } from "../../../../src/source/postgres/shapes/table-shapes.ts";
import { postgresSource } from "../../../support/api/connector-config.ts";
import { emptySourceState } from "../../../support/pipeline/source-state.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

test("a rewrite that commits during a read shows neither in the columns nor in the files; only the copy's check detects it", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query(`create table t (id int primary key, a int); insert into t values (1, 1);
    create table p (id int primary key, a int) partition by range (id); create table p1 partition of p for values from (0) to (9)`);
  const selection = selectionOf(postgresSource(server.connection("postgres")));
  const context = { state: await emptySourceState(), events: { warning: () => {} } };
  await using client = await server.connect();
  // Read before, because reading a root's partitions locks them to the end of the transaction.
  const roots = (await readTableShapes(client, selection, true)).filter((table) => table.isPartitioned);
  const read = async () => {
    const tables = await readTableShapes(client, selection, false);
    const [root] = await withPartitions(client, context, { record: () => {} }, roots);
    const facts = tables.map(({ storage, facts }) => [storage, facts[1]?.version] as const);
    return { facts, contents: root?.contents, id: tables[1]?.relation.id ?? 0 };
  };
  // A statement's snapshot, kept for longer.
  await client.query("begin isolation level repeatable read");
  const before = await read();
  await server.query("alter table t alter a type bigint using a * 10; alter table p alter a type bigint");
  expect(await read()).toEqual(before);
  expect(await readStorage(client, before.id)).not.toBe(before.facts[1]?.[0] ?? null);
  await client.query("commit");
  const after = await read();
  expect(after.facts).toHaveLength(2);
  for (const [i, [storage, version]] of before.facts.entries()) {
    expect(after.facts[i]?.[0]).not.toBe(storage);
    expect(after.facts[i]?.[1]).not.toBe(version ?? "");
  }
  expect(after.contents).not.toBe(before.contents ?? "");
});
