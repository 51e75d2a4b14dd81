import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Catalog } from "../../src/connector/config/catalog.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { slotRelease } from "../support/servers/slot-release.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rig = (options: RigOptions = {}) => PipelineRig.create(server, `p${++count}`, options);

function withoutTable(name: string): Catalog {
  const table = { name, action: "Exclude" as const, columns: [], history_enabled: false };
  return {
    name: "x",
    default_action: "Include",
    schemas: [{ name: "public", action: "Include", tables: [table] }],
  };
}

const wideTable = `create table wide (
  id int8 primary key, a int, b text, c timestamptz default now(), d numeric default 1.50, e uuid default gen_random_uuid(),
  f bool default true, g int[] default '{1,null,3}', h jsonb default '{"k": 12345678901234567890.5}', i bytea default '\\x00ff')`;

describe.each([["binary"], ["text"]] as const)("in %s form", (form) => {
  const options = { forms: form === "binary" ? (["binary", "text"] as const) : (["text"] as const) };

  test("copies what is there, then carries every kind of change", async () => {
    await using pair = await rig(options);
    await pair.source(
      `${wideTable}; insert into wide (id, a, b) select g, g, 'row ' || g from generate_series(1, 500) g`,
    );
    pair.start();
    await pair.expectEqual();
    await pair.source(`
      insert into wide (id, a) values (1001, null), (1002, -1);
      update wide set a = a + 1, b = '' where id < 10;
      update wide set id = -id where id between 20 and 25;
      delete from wide where id between 30 and 40;
      begin; insert into wide (id) values (5000); delete from wide where id = 5000; insert into wide (id, a) values (5000, 7); commit`);
    await pair.expectEqual();
    await pair.stop();
  });

  test("rows without a key are matched as a whole, one for one", async () => {
    await using pair = await rig(options);
    await pair.source(`create table bag (x int, p point, j json); alter table bag replica identity full;
      insert into bag select 1, point(1, 2), '{"a" : 1}' from generate_series(1, 3)`);
    pair.start();
    await pair.untilRealtime();
    await pair.source(`insert into bag values (null, null, null), (null, null, null), (2, null, '1');
      delete from bag where ctid = (select min(ctid) from bag where x = 1);
      update bag set p = point(0, 'nan') where ctid = (select min(ctid) from bag where x is null)`);
    await pair.expectEqual();
    await pair.stop();
  });

  test("values that a change left out of line stay what they are", async () => {
    await using pair = await rig(options);
    await pair.source(`create table doc (id int primary key, n int, big text, more text);
      alter table doc alter big set storage external; alter table doc alter more set storage external;
      insert into doc select g, 0, repeat('x', 9000), repeat('y', 9000) from generate_series(1, 9) g`);
    pair.start();
    await pair.untilRealtime();
    await pair.source(`update doc set n = 1; update doc set id = id + 100 where id in (1, 2);
      update doc set more = 'z' where id = 3;
      begin; update doc set big = repeat('q', 9000) where id = 4; update doc set n = 2 where id = 4; update doc set id = 104 where id = 4; commit;
      begin; delete from doc where id = 5; insert into doc values (5, 5, 'small', null); update doc set n = 6 where id = 5; commit`);
    await pair.expectEqual();
    await pair.stop();
  });

  test("keys that change places in one transaction", async () => {
    await using pair = await rig(options);
    await pair.source(
      "create table s (id int primary key, v text); insert into s values (1, 'a'), (2, 'b'), (3, 'c')",
    );
    pair.start();
    await pair.untilRealtime();
    await pair.source(`begin; update s set id = 9 where id = 1; update s set id = 1 where id = 2;
      update s set id = 2 where id = 9; update s set id = id + 100 where id = 3; commit`);
    await pair.expectEqual();
    await pair.stop();
  });
});

test("a unique value that two rows exchange", async () => {
  await using pair = await rig();
  await pair.source("create table u (id int primary key, v int); insert into u values (1, 1), (2, 2)");
  await pair.sink("create table u (id int primary key, v int unique)");
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    "begin; update u set v = 0 where id = 1; update u set v = 1 where id = 2; update u set v = 2 where id = 1; commit",
  );
  await pair.expectEqual();
  await pair.stop();
});

test("TRUNCATE takes its place between the changes around it", async () => {
  await using pair = await rig();
  await pair.source(
    "create table a (id int primary key); create table b (id int primary key); insert into a values (1); insert into b values (1)",
  );
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    "begin; insert into a values (2); truncate a, b restart identity; insert into a values (3); insert into b values (1); commit",
  );
  await pair.expectEqual();
  await pair.stop();
});

test("a table that gets a column while changes of its old shape are on their way", async () => {
  // Which of two columns of a name a shape had may not be told in the end: then the table is copied again.
  await using pair = await rig({ isSupervised: true });
  await pair.source("create table t (id int primary key, a int); insert into t values (1, 1)");
  pair.start();
  await pair.untilRealtime();
  await pair.source(`begin; insert into t values (2, 2); alter table t add column b int[] default '{7}'; insert into t values (3, 3); commit;
    update t set a = a + 1; alter table t drop column a; insert into t values (4, '{8}')`);
  await pair.source("update t set b = b");
  await pair.source("alter table t add column a int; update t set a = id");
  await pair.expectEqual();
  await pair.stop();
});

test("a type that the sink lacks travels as text, and so does a type that cannot travel as bytes", async () => {
  await using pair = await rig();
  await pair.source(`create type mood as enum ('glad', 'sad'); create table m (id int primary key, one mood, many mood[], c regclass);
    insert into m values (1, 'glad', '{sad,glad}', 'pg_class')`);
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into m values (2, null, '{}', 'm'); update m set one = 'sad' where id = 1");
  await pair.expectEqual();
  await pair.stop();
});

test("a relation that cannot travel as bytes turns the stream to text, with nothing lost", async () => {
  await using pair = await rig();
  await pair.source("create table t (id int primary key)");
  pair.start(["binary"]);
  await pair.untilRealtime();
  await pair.source(
    "insert into t values (1); alter table t add column r regclass[]; insert into t values (2, '{pg_class}')",
  );
  const error = (await pair.ended()) as MillraceError;
  expect(error.code).toBe("stream_form_changed");
  pair.start(["text"]);
  await pair.expectEqual();
  await pair.stop();
});

test("tables are made with the source's keys, and a selection is kept to", async () => {
  await using pair = await rig({
    source: {
      catalog: {
        name: "x",
        default_action: "Exclude",
        schemas: [
          {
            name: "public",
            action: "Include",
            tables: [
              {
                name: "kept",
                action: "Include",
                history_enabled: false,
                columns: [{ name: "secret", action: "Exclude" }],
              },
            ],
          },
        ],
      },
    },
  });
  await pair.source(`create table kept (b int, a text, secret text not null, note text, primary key (a, b)); create table other (id int);
    insert into kept values (1, 'x', 'hidden', 'n')`);
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    "insert into kept values (2, 'y', 'hidden', 'm'); update kept set note = 'k', secret = 's' where b = 1; insert into other values (1)",
  );
  await waitFor(
    "the changes",
    async () => (await pair.sink("select from kept where note = 'k'")).length === 1,
  );
  await pair.stop();
  expect(await pair.sink<object>("select * from kept order by b")).toEqual([
    { b: 1, a: "x", note: "k" },
    { b: 2, a: "y", note: "m" },
  ]);
  expect(await pair.sink<object>("select to_regclass('other') as other")).toEqual([{ other: null }]);
  const [key] = await pair.sink<{ def: string }>(
    "select pg_get_constraintdef(oid) as def from pg_constraint where contype = 'p' and conrelid = 'kept'::regclass",
  );
  expect(key?.def).toBe("PRIMARY KEY (a, b)");
});

test("a run that breaks off in the middle of a copy copies the rest, and nothing twice", async () => {
  await using pair = await rig();
  await pair.source(`create table one (x int); alter table one replica identity full; insert into one select g from generate_series(1, 2000) g;
    create table two (x int, y text); alter table two replica identity full; insert into two select g, repeat('z', 500) from generate_series(1, 60000) g`);
  pair.start();
  while (!pair.phases.some(({ phase, health }) => phase.name === "snapshot" && health.kind === "complete")) {
    await Bun.sleep(1);
  }
  await pair.crash();
  await pair.source(
    "insert into one values (-1); delete from two where x = 5; insert into two values (-1, 'new')",
  );
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a snapshot task mends a table while changes go on", async () => {
  await using pair = await rig();
  await pair.source(
    "create table t (id int primary key, v int); insert into t select g, 0 from generate_series(1, 3000) g; create table k (v int); insert into k values (1), (1)",
  );
  pair.start();
  await pair.expectEqual();
  await pair.sink(
    "delete from t where id % 3 = 0; update t set v = -1 where id % 3 = 1; insert into t values (-5, 0); insert into k values (9)",
  );
  let isDone = false;
  const writing = (async () => {
    for (let i = 0; !isDone; i++) {
      await pair.source(
        `update t set v = v + 1 where id % 50 = ${i % 50}; delete from t where id = ${2000 + i}; insert into t values (${10_000 + i}, 1)`,
      );
    }
  })();
  expect(await pair.snapshot("t", true)).toBeNull();
  expect(await pair.snapshot("k", false)).toBeNull();
  isDone = true;
  await writing;
  await pair.expectEqual();
  expect(await pair.snapshot("missing", false)).toMatchObject({ code: "table_unavailable" });
  await pair.source("insert into t values (-9, 9)");
  await pair.expectEqual();
  await pair.stop();
});

test("a table that comes while the stream goes on is taken in", async () => {
  await using pair = await rig();
  await pair.source("create table t (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  await pair.source(`create table late (id int primary key, v text); insert into late values (1, 'before');
    create table bag (x int); alter table bag replica identity full; insert into bag values (1), (1)`);
  for (let i = 2; i < 40; i++) {
    await pair.source(
      `insert into late values (${i}, 'x'); insert into bag values (${i}); delete from late where id = ${i - 3}; insert into t values (${i})`,
    );
  }
  await pair.expectEqual();
  await pair.stop();
});

test("a table that was dropped and made again is copied again", async () => {
  await using pair = await rig();
  await pair.source("create table t (id int primary key, v int); insert into t values (1, 1), (2, 2)");
  pair.start();
  await pair.expectEqual();
  await pair.source("drop table t; create table t (id int primary key, v int); insert into t values (2, 20)");
  await pair.expectEqual();
  await pair.stop();
  await pair.source("drop table t; create table t (id int primary key, v int); insert into t values (3, 30)");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a table that was left out for a while is copied again", async () => {
  const options: RigOptions = {};
  await using pair = await rig(options);
  await pair.source(
    "create table t (id int primary key); create table other (id int primary key); insert into t values (1), (2)",
  );
  pair.start();
  await pair.expectEqual();
  await pair.stop();
  options.source = { catalog: withoutTable("t") };
  pair.start();
  await pair.untilRealtime();
  await pair.source("delete from t where id = 1; insert into t values (3); insert into other values (1)");
  await waitFor("the other table", async () => (await pair.sink("select from other")).length === 1);
  await pair.stop();
  expect(await pair.sink<object>("select id from t order by 1")).toEqual([{ id: 1 }, { id: 2 }]);
  options.source = {};
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a table that gets a key has its updates and deletes carried from then on", async () => {
  await using pair = await rig();
  await pair.source("create table t (id int not null, v int); insert into t values (1, 1), (2, 2)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("alter table t add primary key (id)");
  const isPublished = async () =>
    (
      await pair.source(
        `select from pg_publication_tables where pubname = '${pair.slot}' and tablename = 't'`,
      )
    ).length === 1;
  await waitFor("the publication", isPublished);
  await pair.source(
    "update t set v = 10 where id = 1; delete from t where id = 2; insert into t values (3, 3)",
  );
  await pair.expectEqual();
  await pair.stop();
});

test("beginning anew replaces what the sink held", async () => {
  await using pair = await rig();
  await pair.source("create table t (id int primary key); insert into t values (1), (2)");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
  await pair.source("delete from t where id = 1; insert into t values (3)");
  pair.initialized = false;
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

describe("a place that was lost stops the run and says so", () => {
  const failing = async (prepare: (pair: PipelineRig) => Promise<unknown>) => {
    await using pair = await rig();
    await pair.source("create table t (id int primary key)");
    pair.start();
    await pair.untilRealtime();
    await pair.stop();
    await slotRelease(server, pair.slot);
    await prepare(pair);
    pair.start();
    const error = await pair.ended();
    expect(error).toBeInstanceOf(MillraceError);
    expect((error as MillraceError).message).toContain("ReInitialize");
    return (error as MillraceError).code;
  };

  test("the slot is gone", async () => {
    expect(await failing((pair) => pair.source(`select pg_drop_replication_slot('${pair.slot}')`))).toBe(
      "slot_missing",
    );
  });

  test("somebody advanced the slot", async () => {
    const advance = async (pair: PipelineRig) => {
      await pair.source("insert into t values (1)");
      await pair.source(`select pg_replication_slot_advance('${pair.slot}', pg_current_wal_lsn())`);
    };
    expect(await failing(advance)).toBe("slot_ahead");
  });

  test("the sink was emptied", async () => {
    expect(await failing((pair) => pair.sink("drop schema millrace cascade"))).toBe("checkpoint_missing");
  });
});

test("the application's own updates go on working on a table without a replica identity", async () => {
  await using pair = await rig();
  await pair.source("create table log (line text); insert into log values ('a')");
  pair.start();
  await pair.untilRealtime();
  await pair.source("update log set line = 'b'; insert into log values ('c')");
  await waitFor("the insert", async () => (await pair.sink("select from log where line = 'c'")).length === 1);
  await pair.stop();
  expect(await pair.sink<object>("select line from log order by 1")).toEqual([{ line: "a" }, { line: "c" }]);
});
