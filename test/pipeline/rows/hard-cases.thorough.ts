// Set-ups in which something was once lost, doubled, cut or stuck.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
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
const rig = (options: RigOptions = {}) => PipelineRig.create(server, `h${++count}`, options);

const streaming = (source: string, options: RigOptions = {}) =>
  PipelineRig.streaming(server, `h${++count}`, { source }, options);

describe("copies", () => {
  test("rows that are deleted while a task merges their table stay deleted", async () => {
    await using pair = await streaming(
      "create table t (id int primary key, v text); insert into t select g, repeat('x', 300) from generate_series(1, 20000) g",
    );
    let isDone = false;
    const deleting = (async () => {
      for (let i = 0; !isDone; i++) {
        await pair.source(`delete from t where id between ${i * 40} and ${i * 40 + 30};
          update t set id = id + 1000000 where id = ${i * 40 + 35}; insert into t values (${i * 40 + 3}, 'again')`);
      }
    })();
    expect(await pair.snapshot("t", false)).toBeNull();
    isDone = true;
    await deleting;
    await pair.expectEqual();
    await pair.stop();
  });

  test.each([
    ["rewritten", "alter table s.t alter column v type text using v::text"],
    ["called otherwise, by its schema's name,", "alter schema s rename to r"],
  ])("a table that is %s between the snapshot and its copy is copied from a new one", async (_, sql) => {
    await using pair = await rig();
    await pair.source(
      "create schema s; create table s.t (id int primary key, v int); insert into s.t select g, g from generate_series(1, 500) g",
    );
    pair.beforeCopies = async () => {
      await pair.source(sql);
    };
    pair.start();
    await pair.untilRealtime();
    await pair.expectEqual();
    await pair.stop();
  });

  test("a table that somebody dropped at the sink is made and copied again", async () => {
    await using pair = await streaming("create table t (id int primary key); insert into t values (1), (2)");
    await pair.stop();
    await pair.sink("drop table t");
    pair.start();
    await pair.expectEqual();
    await pair.stop();
  });

  test("several tables of a schema that is new to the sink are copied side by side", async () => {
    await using pair = await streaming(
      `create schema app; ${Array.from(
        { length: 6 },
        (_, i) =>
          `create table app.t${i} (id int primary key); insert into app.t${i} select generate_series(1, 2000)`,
      ).join(";")}`,
    );
    await pair.expectEqual();
    await pair.stop();
  });

  test("names with dots are kept apart", async () => {
    await using pair =
      await streaming(`create schema "a.b"; create schema a; create table "a.b".c (id int primary key);
      create table a."b.c" (id int primary key); insert into "a.b".c values (1); insert into a."b.c" values (2)`);
    await pair.source('insert into "a.b".c values (3); insert into a."b.c" values (4)');
    await pair.expectEqual();
    await pair.stop();
  });

  test("updates that were not carried while a table had no identity are made good", async () => {
    await using pair = await streaming("create table t (a int, b int); insert into t values (1, 1), (2, 2)");
    await pair.source("update t set b = 10 where a = 1; alter table t replica identity full");
    await pair.expectEqual();
    await pair.source("update t set b = 20 where a = 2");
    await pair.expectEqual();
    await pair.stop();
  });

  test("changes of rows that were never copied do not stop a connector that skips the copy", async () => {
    await using pair = await streaming(
      "create table t (id int primary key, n int, big text); alter table t alter big set storage external; insert into t values (1, 1, repeat('x', 9000))",
      { skipSnapshots: true },
    );
    await pair.source("update t set n = 2; insert into t values (2, 2, 'new')");
    await waitFor("the insert", async () => (await pair.sink("select from t where id = 2")).length === 1);
    await pair.stop();
  });
});

describe("keys and identities", () => {
  test("a deferrable primary key is no identity: the application's statements go on, and rows are matched whole", async () => {
    await using pair = await streaming(`
      create table d (id int primary key deferrable initially deferred, v int); insert into d values (1, 1), (2, 2);
      create table f (id int primary key deferrable initially deferred, v int); alter table f replica identity full;
      insert into f select g, g from generate_series(1, 20) g`);
    await pair.source("update d set v = 5; update f set id = id + 1; update f set v = -v where id > 10");
    const rows = async () =>
      (await pair.sink<{ n: number }>("select count(*)::int as n from f where v < 0"))[0]?.n;
    await waitFor("the updates", async () => (await rows()) === 11);
    expect(await pair.sink<object>("select * from f order by id")).toEqual(
      await pair.source<object>("select * from f order by id"),
    );
    await pair.stop();
  });

  test("a table whose identity is an index gets an index at the sink", async () => {
    await using pair =
      await streaming(`create table t (u text not null, v int); create unique index t_u on t (u);
      alter table t replica identity using index t_u; insert into t select g::text, g from generate_series(1, 3000) g`);
    await pair.source("update t set v = v + 1; delete from t where v % 5 = 0");
    await pair.expectEqual();
    const indexes = await pair.sink("select from pg_index where indrelid = 't'::regclass and indisunique");
    expect(indexes.length).toBe(1);
    await pair.stop();
  });

  test("a key whose operator is an extension's", async () => {
    await using pair = await rig();
    for (const run of [pair.source.bind(pair), pair.sink.bind(pair)]) {
      await run("create extension ltree; create extension citext");
    }
    await pair.source(
      "create table l (k ltree primary key, v int); create table c (k citext primary key, v int); insert into l values ('a.b', 1), ('a', 2); insert into c values ('A', 1), ('b', 2)",
    );
    pair.start();
    await pair.untilRealtime();
    await pair.source(
      "update l set v = 9 where k = 'a.b'; delete from l where k = 'a'; update c set v = 9; update c set k = 'x' where k = 'B'",
    );
    await pair.expectEqual();
    await pair.stop();
  });

  test("a key that comes again where its deletion is not carried", async () => {
    await using pair = await streaming(
      "create table t (id int primary key, v int); alter table t replica identity nothing; insert into t values (1, 1)",
    );
    await pair.source("delete from t; insert into t values (1, 2)");
    await waitFor("the insert", async () => (await pair.sink("select from t where v = 2")).length === 1);
    await pair.stop();
  });

  test("a table that moves between the publications loses no insert", async () => {
    // A table that is altered while it is copied may have the run begin again.
    await using pair = await streaming(
      "create table t (id int not null, v int); insert into t values (0, 0)",
      { isSupervised: true },
    );
    let isDone = false;
    const inserting = (async () => {
      for (let i = 1; !isDone; i++) await pair.source(`insert into t values (${i}, ${i})`);
    })();
    for (const sql of ["add primary key (id)", "drop constraint t_pkey", "add primary key (id)"]) {
      await pair.source(`alter table t ${sql}`);
      const isKeyed = sql.startsWith("add");
      await waitFor("the publication", async () => {
        const rows = await pair.source(`select from pg_publication_tables where pubname = '${pair.slot}'`);
        return rows.length === (isKeyed ? 1 : 0);
      });
    }
    isDone = true;
    await inserting;
    await pair.expectEqual();
    await pair.stop();
  });
});

describe("values", () => {
  test("a value that the sink's column is too short for is refused, and not cut", async () => {
    await using pair = await rig();
    await pair.source(
      "create table t (id int primary key, v text); create table k (id text primary key); insert into k values ('abcde')",
    );
    await pair.sink(
      "create table t (id int primary key, v varchar(5)); create table k (id varchar(5) primary key)",
    );
    pair.start();
    await pair.expectEqual();
    await pair.source("insert into t values (1, 'abcdefgh')");
    expect(await pair.ended()).toMatchObject({ code: "sink_rejected_rows" });
    await pair.sink("alter table t alter column v type text");
    pair.start();
    await pair.expectEqual();
    await pair.stop();
  });

  test("types whose text is not what a cast would make of it", async () => {
    await using pair = await streaming(
      `create table t (id int primary key, r regclass, c char(6), b bit(5), vb bit varying, "q" "char", n numeric(20, 5), s text, x xml);
       insert into t values (1, '-', 'ab', b'10101', b'', 'x', 1.5, E'a\\tb\\nc\\\\d\\r\\b\\f\\v', '<a/>')`,
    );
    await pair.source(
      `insert into t select id + 1, r, c, b, vb, q, n, s, x from t; update t set s = E'\\\\N' where id = 1; update t set c = '' where id = 2`,
    );
    await pair.expectEqual();
    await pair.stop();
  });

  test("900 columns in text form", async () => {
    const columns = Array.from({ length: 900 }, (_, i) => `c${i} int8 default ${i}`).join(", ");
    await using pair = await streaming(
      `create table t (id int primary key, ${columns}); insert into t values (1)`,
      { forms: ["text"] },
    );
    await pair.source("insert into t values (2); update t set c5 = 1");
    await pair.expectEqual();
    await pair.stop();
  });

  test("a table without columns", async () => {
    await using pair = await streaming("create table nothing (); insert into nothing default values");
    await pair.source("insert into nothing default values; insert into nothing default values");
    await waitFor("the rows", async () => (await pair.sink("select from nothing")).length === 3);
    await pair.stop();
  });
});

test("TRUNCATE … CASCADE reaches what it named at the source, and nothing else at the sink", async () => {
  await using pair = await rig();
  await pair.source(
    "create table a (id int primary key); create table b (id int primary key, a int references a); insert into a values (1); insert into b values (1, 1)",
  );
  await pair.sink(
    "create table a (id int primary key); create table own (id int references a); insert into a values (1); insert into own values (1)",
  );
  pair.start();
  await pair.untilRealtime();
  await pair.source("truncate a cascade; insert into a values (2)");
  await waitFor("the truncate", async () => (await pair.sink("select from b")).length === 0);
  await pair.stop();
  expect(await pair.sink<object>("select * from a")).toEqual([{ id: 2 }]);
  expect(await pair.sink<object>("select * from own")).toEqual([{ id: 1 }]);
});

test("two tables that would be written to one are refused", async () => {
  await using pair = await rig({ sink: { target_schema: "all_in_one" } });
  await pair.source("create schema other; create table log (x int); create table other.log (x int)");
  pair.start();
  expect(await pair.ended()).toMatchObject({ code: "sink_schema_mismatch" });
});

test("a source that was restored to before the checkpoint is not streamed from", async () => {
  await using pair = await streaming("create table t (id int primary key)");
  await pair.stop();
  await pair.sink("update millrace.checkpoint set resume_lsn = resume_lsn + 1000000000::numeric");
  pair.start();
  expect(await pair.ended()).toMatchObject({ code: "source_behind" });
});

test("durable means durable, whatever the sink's database says", async () => {
  await using pair = await rig();
  await pair.sink(`alter database ${pair.sinkDatabase} set synchronous_commit = off`);
  await pair.source("create table t (id int primary key)");
  await pair.sink(`create table settings (value text);
    create table t (id int primary key); create function note() returns trigger language plpgsql as
    $$ begin insert into public.settings values (current_setting('synchronous_commit')); return new; end $$;
    create trigger note after insert on t for each row execute function note(); alter table t enable always trigger note`);
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1)");
  await waitFor("the row", async () => (await pair.sink("select from t")).length === 1);
  await pair.stop();
  expect(await pair.sink<object>("select value from settings")).toEqual([{ value: "on" }]);
});

test("staging tables do not pile up", async () => {
  const tables = Array.from(
    { length: 60 },
    (_, i) => `create table t${i} (id int primary key, v int); insert into t${i} values (1, 1)`,
  );
  await using pair = await streaming(tables.join(";"));
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 60; i++) await pair.source(`update t${i} set v = v + 1`);
    await pair.expectEqual();
  }
  const staged = await pair.sink<{ n: number }>(
    "select count(*)::int as n from pg_class where relname like 'millrace_stage%' and relpersistence = 't' and relkind = 'r'",
  );
  expect(staged[0]?.n).toBeLessThanOrEqual(41);
  await pair.stop();
});

describe("a publication that the user owns", () => {
  const named = (pairName: string, catalog?: Catalog): RigOptions => ({
    source: {
      replication_type: { logical_replication: logicalReplication(pairName) },
      ...(catalog ? { catalog } : {}),
    },
  });
  const onlyT: Catalog = {
    name: "x",
    default_action: "Exclude",
    schemas: [
      {
        name: "public",
        action: "Include",
        tables: [{ name: "t", action: "Include", columns: [], history_enabled: false }],
      },
    ],
  };

  test("is used as it is; what it lacks is not copied", async () => {
    await using pair = await rig(named("own"));
    await pair.source(
      "create table t (id int primary key); create table other (id int primary key); insert into other values (1); create publication own for table t",
    );
    pair.start();
    await pair.untilRealtime();
    await pair.source("insert into t values (1)");
    await waitFor("the row", async () => (await pair.sink("select from t")).length === 1);
    await pair.stop();
    expect(await pair.sink<object>("select to_regclass('other') as other")).toEqual([{ other: null }]);
    expect(await pair.source("select from pg_publication where pubname = 'own'")).toHaveLength(1);
  });

  test.each([
    ["is not there", "select 1", "publication_missing", "CREATE PUBLICATION"],
    [
      "lacks a table that the catalog names",
      "create publication own",
      "publication_mismatch",
      'ADD TABLE "public"."t"',
    ],
    [
      "filters rows",
      "create publication own for table t where (id > 5)",
      "publication_mismatch",
      "filters the rows",
    ],
    ["leaves out columns", "create publication own for table t (id)", "publication_mismatch", "exclude them"],
    [
      "publishes partitions by their root",
      "create publication own for table t with (publish_via_partition_root)",
      "publication_mismatch",
      "partitions_as_root",
    ],
  ])("stops the run when it %s", async (_, sql, code, hint) => {
    await using pair = await rig(named("own", onlyT));
    await pair.source(`create table t (id int primary key, v text); ${sql}`);
    pair.start();
    const error = (await pair.ended()) as MillraceError;
    expect(error.code).toBe(code as MillraceError["code"]);
    expect(error.message).toContain(hint);
  });
});

describe("a sink whose shape falls behind", () => {
  test("takes null where the source has come to take it", async () => {
    await using pair = await streaming(
      "create table t (id int primary key, a int not null, b int not null); insert into t values (1, 1, 1)",
    );
    await pair.source(
      "alter table t alter column a drop not null, alter column b drop not null; insert into t values (2, null, null), (3, 3, null)",
    );
    await pair.expectEqual();
    await pair.stop();
  });

  test.each([
    "alter table t rename a to c; alter table t alter c drop not null; insert into t values (2, null)",
    "alter table t rename to v; alter table v alter a drop not null; insert into v values (2, null)",
    "insert into t values (5, 5); alter table t alter a drop not null; alter table t rename a to id2; insert into t values (2, null)",
  ])("takes null in the batch that also renames: %s", async (sql) => {
    await using pair = await streaming("create table t (id int primary key, a int not null)");
    await pair.stop();
    await pair.source(sql);
    pair.start();
    await pair.expectEqual();
    await pair.stop();
  });
});

test("a publication that was dropped while changes were logged says what to do", async () => {
  await using pair = await streaming("create table t (id int primary key)");
  await pair.source(`drop publication ${pair.slot}`);
  await pair.source("insert into t values (1)");
  const error = (await pair.ended()) as MillraceError;
  expect(error.code).toBe("publication_missing");
  expect(error.message).toContain("ReInitialize");
});

test("the source stops fast although the last it logged was not for us", async () => {
  await using own = await PostgresServer.start({ settings: { fsync: "off" } });
  await using pair = await PipelineRig.create(own, "fast");
  await own.createDatabase("elsewhere");
  await own.query("create table o (x text)", "elsewhere");
  await pair.source("create table t (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1)");
  await pair.expectEqual();
  await own.query(
    "begin; insert into o select repeat('x', 100) from generate_series(1, 100); rollback",
    "elsewhere",
  );
  const begunAt = performance.now();
  await own.stop("fast");
  // Its wal_sender_timeout is a minute.
  expect(performance.now() - begunAt).toBeLessThan(20_000);
  await own.launch();
});
