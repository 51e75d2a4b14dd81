// Large transactions come while they are in progress, in parts, and are at the sink all at once when they are committed. What
// cannot be carried so comes again when its end is known.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { PostgresSinkConfig } from "../../src/connector/config/sink-config.ts";
import type { SinkPace } from "../../src/sink/postgres/sink-pace.ts";
import { fullConnection } from "../support/api/connector-config.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  // The server sends what is larger than this before it is committed.
  server = await PostgresServer.start({ settings: { fsync: "off", logical_decoding_work_mem: "64kB" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const tables = `
create table t (id int primary key, n int, large text); alter table t alter large set storage external;
create table other (id int primary key, n int)`;

const rows = (from: number, to: number) =>
  `insert into t (id, n, large) select g, g, repeat(chr(97 + g % 26), 100) from generate_series(${from}, ${to}) g`;

async function streaming(
  maxBufferedRows = 200,
  sink: Partial<PostgresSinkConfig> = {},
  sinkPace: Partial<SinkPace> = {},
): Promise<PipelineRig> {
  const name = `progress_${crypto.randomUUID().slice(0, 8)}`;
  return await PipelineRig.streaming(
    server,
    name,
    { source: tables },
    { maxBufferedRows, isSupervised: true, sink, sinkPace },
  );
}

async function count(pair: PipelineRig, table = "t"): Promise<number> {
  const [row] = await pair.sink<{ count: number }>(`select count(*)::int4 as count from ${table}`);
  return row?.count ?? -1;
}

/** Whether a session at the sink holds what is not committed. */
async function isPartAtSink(pair: PipelineRig): Promise<boolean> {
  const [row] = await pair.sink<{ held: number }>(
    "select count(*)::int4 as held from pg_stat_activity where datname = current_database() " +
      "and application_name like 'millrace copy %' and backend_xid is not null and state = 'idle in transaction'",
  );
  return row?.held === 1;
}

test("is written while it is in progress, beside others, and seen when it is committed", async () => {
  await using pair = await streaming();
  await using large = await pair.sourceSession();
  await large.query(`begin; ${rows(1, 3000)}`);
  await waitFor("a part at the sink", () => isPartAtSink(pair));
  await pair.source("insert into other values (1, 1)");
  await waitFor("another's row", async () => (await count(pair, "other")) === 1);
  await large.query(
    `update t set n = -n where id % 3 = 0; delete from t where id % 7 = 0; ${rows(4000, 7000)}`,
  );
  await pair.source("update other set n = 2; insert into other values (2, 2)");
  await waitFor("others' changes", async () => (await count(pair, "other")) === 2);
  expect(await count(pair)).toBe(0);
  await large.query("update t set id = id + 100000 where id > 6990; commit");
  await pair.expectEqual();
  expect(await count(pair)).toBeGreaterThan(5000);
  await pair.source("update t set n = 5 where id = 1; delete from t where id = 2");
  await pair.expectEqual();
  // Never begun again.
  expect(pair.streamForms).toHaveLength(1);
  await pair.stop();
});

test("others' rows of its tables do not wait for it", async () => {
  await using pair = await streaming(5_000);
  await pair.source(rows(1, 2));
  await pair.expectEqual();
  await using large = await pair.sourceSession();
  // What comes of it is not enough to be handed out.
  await large.query(`begin; ${rows(10, 800)}`);
  await pair.source(rows(3, 4));
  await waitFor("others' rows", async () => (await count(pair)) === 4, { timeoutMs: 4_000 });
  await large.query("commit");
  await pair.expectEqual();
  expect(pair.streamForms).toHaveLength(1);
  await pair.stop();
});

test("is written when it is committed where the connector allows no session for it", async () => {
  await using pair = await streaming();
  await pair.stop();
  const connection = fullConnection(server.connection(pair.sinkDatabase), { max_pool_size: 2 });
  pair.reconfigureSink({ connection });
  pair.start();
  await pair.untilRealtime();
  await using large = await pair.sourceSession();
  await large.query(`begin; ${rows(1, 3000)}`);
  await pair.source("insert into other values (1, 1)");
  await waitFor("another's row", async () => (await count(pair, "other")) === 1);
  expect(await isPartAtSink(pair)).toBe(false);
  await large.query("commit");
  await pair.expectEqual();
  expect(pair.streamForms).toHaveLength(2);
  await pair.stop();
});

test("leaves nothing when it is rolled back", async () => {
  await using pair = await streaming();
  await pair.source(rows(1, 10));
  await pair.expectEqual();
  await using large = await pair.sourceSession();
  await large.query(`begin; update t set n = 0; ${rows(11, 3000)}; delete from t where id < 5`);
  await waitFor("a part at the sink", () => isPartAtSink(pair));
  await large.query("rollback");
  await pair.source("update t set n = 7 where id = 1");
  await pair.expectEqual();
  await waitFor("the part's end", async () => !(await isPartAtSink(pair)));
  await large.query(`begin; ${rows(11, 3000)}; commit`);
  await pair.expectEqual();
  expect(pair.streamForms).toHaveLength(1);
  await pair.stop();
});

test("values that it leaves as they are, and large ones, between others' large ones", async () => {
  await using pair = await streaming();
  await pair.source(`${rows(1, 50)}; update t set large = repeat('x', 5000) where id < 20`);
  await pair.expectEqual();
  await using large = await pair.sourceSession();
  await large.query(`begin; update t set n = n + 1; ${rows(100, 2000)}`);
  await waitFor("a part at the sink", () => isPartAtSink(pair));
  await pair.source(
    "create table big (id int primary key, v text); insert into big values (1, repeat('o', 1500000))",
  );
  await large.query(
    "insert into t values (-1, 1, repeat('l', 2000000)); update t set n = n + 1 where id < 30",
  );
  await pair.source("insert into other values (1, 1); update big set id = 2");
  await large.query(`update t set large = 'short' where id = 3; ${rows(2001, 3000)}; commit`);
  await pair.expectEqual();
  await pair.stop();
});

describe("is given up, and comes when it is committed", () => {
  test.each([
    ["a part is rolled back to a savepoint", `savepoint s; ${rows(5000, 7000)}; rollback to s`],
    [
      "a table gets a column",
      `alter table t add column z int default 5; update t set z = id where id % 2 = 0`,
    ],
    ["a table is made", `create table made as select g as id from generate_series(1, 3000) g`],
    ["a table is emptied and filled", `truncate t; ${rows(5000, 7000)}`],
  ])("%s", async (_, sql) => {
    await using pair = await streaming();
    await pair.source(rows(1, 100));
    await pair.expectEqual();
    await pair.source(`begin; ${rows(101, 3000)}; ${sql}; update t set n = 3 where id = 1; commit`);
    await pair.source("insert into other values (1, 1)");
    await pair.expectEqual();
    await pair.stop();
  });

  test("a column goes and one of its name comes, when a part is at the sink", async () => {
    await using pair = await streaming();
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(1, 3000)}`);
    await waitFor("a part at the sink", () => isPartAtSink(pair));
    await large.query("alter table t drop column large; alter table t add column large text");
    await large.query(`${rows(5000, 7000)}; commit`);
    await pair.expectEqual();
    await pair.stop();
  });

  test("two are in progress at once", async () => {
    await using pair = await streaming();
    await using one = await pair.sourceSession();
    await using two = await pair.sourceSession();
    await one.query(`begin; ${rows(1, 2000)}`);
    await waitFor("a part at the sink", () => isPartAtSink(pair));
    await two.query(`begin; ${rows(3001, 5000)}`);
    await one.query(rows(2001, 3000));
    await two.query("commit");
    await one.query("commit");
    await pair.expectEqual();
    expect(pair.streamForms).toHaveLength(2);
    await pair.stop();
  });

  test("another has to wait for it at the sink", async () => {
    await using pair = await streaming();
    // The source knows no such constraint.
    await pair.sink("alter table t add constraint one_n unique (n)");
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(1, 3000)}`);
    await waitFor("a part at the sink", () => isPartAtSink(pair));
    await pair.source("insert into t values (-1, 1, '')");
    await waitFor("the other's row", async () => (await count(pair)) === 1, { timeoutMs: 20_000 });
    await large.query("rollback");
    await pair.expectEqual();
    await pair.stop();
  });

  test("it has to wait for somebody at the sink", async () => {
    await using pair = await streaming();
    await using somebody = await server.connect(pair.sinkDatabase);
    await somebody.query("begin; lock table t in share mode");
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(1, 3000)}`);
    // A busy machine may show the rows only once the part is given up.
    await waitFor("the part", () => pair.progress?.rowsIn !== 0 || pair.streamForms.length === 2);
    await pair.source("insert into other values (1, 1)");
    await waitFor("another's row", async () => (await count(pair, "other")) === 1, { timeoutMs: 20_000 });
    await somebody.query("rollback");
    await large.query("commit");
    await pair.expectEqual();
    await pair.stop();
  });

  test("it empties a table: readers of the sink do not wait for its end", async () => {
    await using pair = await streaming();
    await pair.source(rows(1, 100));
    await pair.expectEqual();
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(101, 3000)}; truncate t; ${rows(5000, 7000)}`);
    await waitFor("the next run", () => pair.streamForms.length === 2);
    expect(await count(pair)).toBe(100);
    await large.query("commit");
    await pair.expectEqual();
    await pair.stop();
  });

  test("the sink's server has no room for another session", async () => {
    await using pair = await PipelineRig.create(server, `progress_${crypto.randomUUID().slice(0, 8)}`, {
      maxBufferedRows: 200,
      isSupervised: true,
    });
    await pair.source(tables);
    await server.query("create role narrow login");
    await server.query(`grant create, temporary on database "${pair.sinkDatabase}" to narrow`);
    await pair.sink("grant create, usage on schema public to narrow");
    pair.sinkUser = "narrow";
    pair.start();
    await pair.untilRealtime();
    await server.query("alter role narrow connection limit 1");
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(1, 3000)}`);
    await pair.source("insert into other values (1, 1)");
    await waitFor("another's row", async () => (await count(pair, "other")) === 1, { timeoutMs: 20_000 });
    await large.query("commit");
    await pair.expectEqual();
    expect(pair.streamForms).toHaveLength(2);
    await pair.stop();
  });

  test("its table is set aside meanwhile", async () => {
    await using pair = await streaming(200, { migration_strategy: { allowed: [], disable_all: true } });
    await pair.sink("alter table t alter column n set not null");
    await using large = await pair.sourceSession();
    const others = (to: number) =>
      `insert into other select g, g from generate_series(${to - 2999}, ${to}) g`;
    await large.query(`begin; ${rows(1, 3000)}; ${others(3000)}`);
    // All that it has of the table is at the sink once it has rows of the other one.
    const lock = "select from pg_locks where relation = 'other'::regclass and mode = 'RowExclusiveLock'";
    await waitFor("its parts", async () => (await pair.sink(lock)).length > 0);
    await pair.source("insert into t values (-1, null, '')");
    await waitFor("the table to be set aside", () => pair.setAside.length === 1);
    await large.query(`${others(6000)}; commit`);
    await waitFor("the other's rows", async () => (await count(pair, "other")) === 6000);
    expect(await count(pair)).toBe(0);
    await pair.stop();
  });

  test("nothing comes of it for long: its session at the sink is given back", async () => {
    await using pair = await streaming(200, {}, { inProgressIdleMs: 200 });
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(1, 3000)}`);
    await waitFor("a part at the sink", () => isPartAtSink(pair));
    await waitFor("the part's end", async () => !(await isPartAtSink(pair)));
    await pair.source("insert into other values (1, 1)");
    await waitFor("another's row", async () => (await count(pair, "other")) === 1);
    await large.query(`${rows(3001, 6000)}; commit`);
    await pair.expectEqual();
    await pair.stop();
  });

  test("its session at the sink is ended, or its table is to be copied", async () => {
    await using pair = await streaming();
    await using large = await pair.sourceSession();
    await large.query(`begin; ${rows(1, 3000)}`);
    await waitFor("a part at the sink", () => isPartAtSink(pair));
    await pair.sink(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millrace copy %'",
    );
    await large.query(`${rows(3001, 6000)}; commit`);
    await pair.expectEqual();
    await pair.stop();
    pair.start();
    await pair.untilRealtime();
    await large.query("begin; update t set n = 0");
    await waitFor("a part at the sink", () => isPartAtSink(pair));
    const copied = pair.snapshot("other", true);
    await waitFor("the part's end", async () => !(await isPartAtSink(pair)));
    await large.query("commit");
    expect(await copied).toBeNull();
    await pair.expectEqual();
    await pair.stop();
  });
});

test("a run that dies amid it begins again with all of it", async () => {
  await using pair = await streaming();
  await using large = await pair.sourceSession();
  await large.query(`begin; ${rows(1, 3000)}`);
  await waitFor("a part at the sink", () => isPartAtSink(pair));
  await pair.source("insert into other values (1, 1)");
  await waitFor("another's row", async () => (await count(pair, "other")) === 1);
  await pair.crash();
  await large.query(`${rows(3001, 5000)}`);
  pair.start();
  await pair.untilRealtime();
  await waitFor("a part at the sink", () => isPartAtSink(pair));
  expect(await count(pair)).toBe(0);
  await large.query("commit");
  await pair.expectEqual();
  expect(await count(pair)).toBe(5000);
  await pair.stop();
});
