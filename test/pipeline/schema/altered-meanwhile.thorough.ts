// What is altered beside a table while its changes travel: names of its columns behind the snapshot of its copy, its types, its
// heirs, its publication, its schema.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

const streaming = (source: string, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `altered_${++count}`, { source }, { isSupervised: true, ...options });

test("columns that get each other's names between the snapshot and the copy keep their values", async () => {
  await using pair = await PipelineRig.create(server, `altered_${++count}`, { isSupervised: true });
  await pair.source(
    `create table t (id int primary key, a int, b int); insert into t select g, g, -g from generate_series(1, 5) g;
     create table u (id int primary key, a int); insert into u values (1, 1)`,
  );
  pair.beforeCopies = async () => {
    pair.beforeCopies = async () => {};
    await pair.source(
      `alter table t rename a to x; alter table t rename b to a; alter table t rename x to b;
       alter table u rename a to x; alter table u add a int default 77`,
    );
  };
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (6, 6, -6); insert into u values (2, 2, 2)");
  await pair.expectEqual();
  await pair.stop();
});

test("rows of a type that the source has dropped since", async () => {
  await using pair = await streaming(
    `create type mood as enum ('sad', 'ok'); create domain small as int;
     create table t (id int primary key, m mood, s small, n int); insert into t values (1, 'sad', 1, 1);
     create table u (id int primary key, m mood); insert into u values (1, 'sad')`,
  );
  await pair.expectEqual();
  await pair.stop();
  await pair.source("insert into t values (2, 'ok', 2, 2); insert into u values (2, 'ok')");
  await pair.source("alter table u alter m type text; drop type mood cascade; drop domain small cascade");
  await pair.source("insert into t values (3, 3); insert into u values (3, 'else')");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("an heir's updates are carried also when its parent's no longer can be", async () => {
  await using pair = await streaming(
    `create table p (id int primary key, v int); create table heir (primary key (id)) inherits (p);
     insert into p values (1, 1); insert into heir values (2, 2), (3, 3)`,
  );
  await pair.source("alter table p replica identity nothing");
  const isMoved = async () =>
    (await pair.source(`select from pg_publication_tables where pubname like '%$append' and tablename = 'p'`))
      .length > 0;
  await waitFor("the parent to be published otherwise", isMoved);
  await pair.source("update heir set v = 9 where id = 2; delete from heir where id = 3");
  await pair.expectSame("select * from only heir order by id");
  await pair.stop();
});

test("a row filter that somebody gives the connector's own publication is taken away again", async () => {
  await using pair = await streaming("create table t (id int primary key); insert into t values (1)");
  await pair.source(
    `alter publication ${pair.slot} drop table t; alter publication ${pair.slot} add table t where (id < 5)`,
  );
  const isWhole = async () =>
    (await pair.source(`select from pg_publication_tables where tablename = 't' and rowfilter is null`))
      .length > 0;
  await waitFor("the table to be published whole", isWhole);
  await pair.source("insert into t values (9)");
  await pair.expectEqual();
  await pair.stop();
});

test("tables of one name in schemas that take each other's names", async () => {
  const table = (name: string) =>
    `create schema ${name}; create table ${name}.t (id int primary key, v text)`;
  await using pair = await streaming(
    `${table("s")}; ${table("r")}; insert into s.t values (1, 'was s'); insert into r.t values (1, 'was r')`,
  );
  await pair.source("insert into s.t values (2, 'was s too')");
  await pair.source("alter schema s rename to q; alter schema r rename to s; alter schema q rename to r");
  await pair.source("insert into r.t values (3, 'is r'); insert into s.t values (3, 'is s')");
  await pair.expectEqual();
  await pair.stop();
});

test.each([
  ["as they are", {}],
  ["with columns of their own", { system_columns: { lsn: {}, operation: {} } }],
])(
  "roots that take each other's names, though the server does not announce them again, %s",
  async (_, columns) => {
    const root = (name: string) =>
      `create table ${name} (id int, v text, primary key (id)) partition by range (id);
     create table ${name}1 partition of ${name} for values from (0) to (100); insert into ${name} values (1, 'was ${name}')`;
    await using pair = await streaming(`${root("r")}; ${root("q")}`, {
      source: { partitions_as_root: true, ...columns },
    });
    const both = "select 'r', id, v from r union all select 'q', id, v from q order by 1, 2";
    await pair.source("insert into r values (2, 'was r too')");
    await pair.source("alter table r rename to x; alter table q rename to r; alter table x rename to q");
    await pair.source("insert into r values (3, 'is r'); insert into q values (3, 'is q')");
    await pair.expectSame(both);
    await pair.source("update q set v = 'last' where id = 1; delete from r where id = 1");
    await pair.expectSame(both);
    await pair.stop();
  },
);

test("roots that leave the catalog by their name, or come into it, though the server does not announce them again", async () => {
  const root = (name: string) =>
    `create table ${name} (id int, v text, primary key (id)) partition by range (id);
     create table ${name}1 partition of ${name} for values from (0) to (100); insert into ${name} values (1, 'first')`;
  const tables = [{ name: "hidden", action: "Exclude" as const, history_enabled: false, columns: [] }];
  await using pair = await streaming(
    `${root("hidden")}; ${root("gone")};
     create publication mine for all tables with (publish_via_partition_root = true)`,
    {
      source: {
        partitions_as_root: true,
        replication_type: { logical_replication: logicalReplication("mine") },
        catalog: {
          name: "all",
          default_action: "Include",
          schemas: [{ name: "public", action: "Include", tables }],
        },
      },
    },
  );
  await pair.source(
    "insert into hidden values (2, 'under its old name'); insert into gone values (2, 'all of it')",
  );
  await pair.expectSame("select * from gone order by id");
  await pair.source("alter table hidden rename to t");
  await waitFor(
    "the copy",
    async () => (await pair.sink("select from pg_tables where tablename = 't'")).length > 0,
  );
  await pair.source("insert into t values (3, 'under the new one')");
  await pair.expectSame("select * from t order by id");
  await pair.source("alter table gone rename to hidden; insert into hidden values (3, 'no longer')");
  await pair.source(
    "create table gone (id int, v text, primary key (id)); insert into gone values (1, 'new')",
  );
  await pair.expectSame("select * from gone order by id");
  await pair.source("insert into hidden values (4, 'no longer'); insert into gone values (2, 'new')");
  await pair.expectSame("select * from gone order by id");
  await pair.stop();
});

test("what is printed otherwise by now is warned of: labels that take each other's names, hashes, attributes that go", async () => {
  const columns = [{ name: "h", action: "Include" as const, hash: {} }];
  const table = { name: "h", action: "Include" as const, history_enabled: false, columns };
  await using pair = await streaming(
    `create type mood as enum ('a', 'b'); create table t (id int primary key, m mood); insert into t values (1, 'a');
     create type pair as (x int, y int); create table c (id int primary key, p pair); insert into c values (1, '(1,2)');
     create table h (id int primary key, h cidr); insert into h values (1, '10.0.0.1/32')`,
    {
      source: {
        catalog: {
          name: "db",
          default_action: "Include",
          column_hashing: { algorithm: "Sha256", salt: "salt" },
          schemas: [{ name: "public", action: "Include", tables: [table] }],
        },
      },
    },
  );
  await pair.stop();
  await pair.source(
    `alter type mood rename value 'a' to 'x'; alter type mood rename value 'b' to 'a'; alter type mood rename value 'x' to 'b';
     alter type pair drop attribute x; alter type pair add attribute z int; alter table h alter h type inet`,
  );
  pair.start();
  const isTold = (name: string) => pair.silentChanges.includes(`Table public.${name}:`);
  for (const name of ["t", "c", "h"]) await waitFor(`the warning of ${name}`, () => isTold(name));
  expect(pair.silentChanges).toContain("the type of column m got labels that were called otherwise before");
  expect(await pair.snapshot("t", false)).toBeNull();
  expect(await pair.snapshot("h", false)).toBeNull();
  await waitFor("the warnings to end", () => !isTold("t") && !isTold("h"));
  await pair.expectSame("select * from t");
  await pair.stop();
});

test("a column that came later is none of those that were there before, when another has gone meanwhile", async () => {
  await using pair = await streaming(
    "create table t (id int primary key, a int, b text, c timestamptz); insert into t values (1, 1, 'x', now())",
  );
  await pair.stop();
  await pair.source("insert into t values (2, 2, 'y', now())");
  await pair.source("alter table t drop a");
  await pair.source(
    `begin; insert into t values (3, 'z', now()); alter table t rename c to x; alter table t rename b to c;
     alter table t rename x to b; insert into t values (4, 'w', now()); commit`,
  );
  await pair.source("alter table t drop b");
  await pair.source("alter table t add d text");
  await pair.source("insert into t values (5, 'last', 'd')");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

/** Of `a` and `b` the first has the other's name by now, which has gone under a third one; `c` is beside them. The run is over. */
async function replacing(): Promise<PipelineRig> {
  // Looked at when a run begins, and not again: what is lost stays lost.
  const pair = await streaming(
    `create table a (id int primary key, v text); create table b (id int primary key, n int); insert into a values (1, 'a');
     insert into b values (1, 1); create table c (id int primary key)`,
    { pace: { tableCheckMs: 600_000 } },
  );
  await pair.expectEqual();
  await pair.stop();
  await pair.source(
    `alter table a rename to x; alter table b rename to a; alter table x rename to b; insert into b values (2, 'b');
     alter table a rename to other; insert into other values (2, 2); drop table other`,
  );
  return pair;
}

test("a table that is copied into the place of one that is gone is not renamed with it", async () => {
  await using pair = await replacing();
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into c values (1)");
  await waitFor("the last row", async () => (await pair.sink("select from c")).length === 1);
  await pair.expectEqual();
  await pair.stop();
});

test("a table that is gone does not take along the rows of the one that is copied into its place", async () => {
  const [reading, writing] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using pair = await replacing();
  await pair.source("insert into c values (1)");
  // The first stream tells that a table has another name: the run ends, and the next one copies.
  pair.streamsLet = pair.streamForms.length + 1;
  [pair.copiesHeld, pair.writesHeld] = [reading.promise, writing.promise];
  pair.start();
  const locks = "select from pg_locks where relation = 'b'::regclass and mode = 'AccessExclusiveLock'";
  await waitFor("the copy to alter the table", async () => (await pair.sink(locks)).length > 0);
  reading.resolve();
  await waitFor("the copy", async () => (await pair.sink("select from b where v = 'b'")).length === 1);
  // What the stream tells of the name that the table was given before it was dropped comes behind the copy.
  writing.resolve();
  await pair.expectEqual();
  await pair.stop();
});
