// One transaction alters tables and comes in pieces; the sink undoes one of them and applies it again. What it remembers of the
// tables must be what the earlier pieces made of them.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const tables = ["t", "u"].map(
  (name) => `create table ${name} (id int primary key, a text, b text, n int unique);
    insert into ${name} select g, '${name} a', '${name} b', g from generate_series(1, 20) g`,
);

/** What the first piece brings. */
const alterations: readonly (readonly [what: string, sql: string])[] = [
  [
    "two columns take each other's names",
    "alter table t rename a to aside; alter table t rename b to a; alter table t rename aside to b",
  ],
  [
    "two tables take each other's names",
    "alter table t rename to aside; alter table u rename to t; alter table aside rename to u",
  ],
  ["a table is renamed", "alter table u rename to v"],
  ["a column is dropped and added again", "alter table t drop column a; alter table t add column a text"],
  ["a column is given another type", "alter table t alter a type varchar(50)"],
];

test.each(alterations)("%s, and values change places in a later piece", async (_, sql) => {
  await using pair = await PipelineRig.create(server, `pieces_${crypto.randomUUID().slice(0, 8)}`, {
    maxBufferedRows: 5,
    isSupervised: true,
  });
  await pair.source(tables.join("; "));
  pair.start();
  await pair.untilRealtime();
  // Makes the sink refuse rows whose values change places, and take them with care.
  await pair.sink("create unique index on t (n); create unique index on u (n)");
  const changePlaces = `update t set n = -1 where id = 1; update t set n = 1 where id = 2; update t set n = 2 where id = 1;`;
  await pair.source(`begin; ${sql};
    insert into t (id, a, b, n) select g, 'new a', 'new b', g from generate_series(100, 120) g;
    ${changePlaces} update t set b = 'seen' where id between 5 and 15; ${changePlaces}
    insert into t (id, n) select g, g from generate_series(200, 220) g; ${changePlaces} commit`);
  await pair.expectEqual();
  await pair.stop();
  // Not by beginning again.
  expect(pair.streamForms).toHaveLength(1);
});
