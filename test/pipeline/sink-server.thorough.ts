// What the owner of the sink's server has chosen for its tables and its roles: deferred constraints, tables without a log, limits
// and levels for transactions.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rig = () => PipelineRig.create(server, `sv${++count}`);

/** Both databases as given, and a stream between them. */
const between = (source: string, sink: string) =>
  PipelineRig.streaming(server, `sv${++count}`, { source, sink });

test("keys and constraints that are deferred hold though triggers are switched off", async () => {
  await using pair = await rig();
  await pair.source("create table t (id int primary key, u int); insert into t values (1, 1), (2, 2)");
  await pair.sink(
    "create table t (id int primary key deferrable initially deferred, u int unique deferrable initially immediate)",
  );
  pair.start();
  await pair.untilRealtime();
  // What should not be there makes room, as where the key is checked at once.
  await pair.sink("insert into t values (3, 33), (4, 44)");
  await pair.source(
    "insert into t values (3, 3); begin; update t set u = 9 where id = 1; update t set u = 1 where id = 2; update t set u = 2 where id = 1; commit",
  );
  await pair.source("insert into t values (4, 4)");
  await pair.expectEqual();
  await pair.source("insert into t values (5, 5), (6, 5)");
  const refusal = String(await pair.ended());
  expect(refusal).toContain("that is there already: constraint t_u_key, table public.t");
  expect(refusal).toContain("The row is (id)=(6)");
  await pair.source("update t set u = 6 where id = 6");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("a constraint that is deferred refuses a transaction whose rows have come, and whose end comes alone", async () => {
  await using pair = await between(
    "create table t (id int primary key, u int, v text); insert into t values (1, 1)",
    "create table t (id int primary key, u int unique deferrable initially deferred, v text)",
  );
  // A long row does not wait for the end of its transaction.
  const long = "(select string_agg(md5(i::text), '') from generate_series(1, 80000) i)";
  await pair.source(`insert into t values (2, 1, ${long})`);
  const refusal = String(await pair.ended());
  expect(refusal).toContain("that is there already: constraint t_u_key, table public.t");
  expect(refusal).toContain("It is a row, of the transaction that was committed at");
  await pair.source("insert into t values (3, 3)");
  await pair.sink("alter table t drop constraint t_u_key");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("unlogged tables, which a crash of the sink's server has emptied, are copied again", async () => {
  await using pair = await between(
    "create table t (id int primary key, v text); create table p (id int primary key); create table kept (id int primary key); insert into t values (1, 'a'); insert into p values (1); insert into kept values (1)",
    `create unlogged table t (id int primary key, v text); create table p (id int primary key) partition by range (id);
     create unlogged table p1 partition of p for values from (0) to (100)`,
  );
  await pair.source("insert into t values (2, 'b'); insert into p values (2); insert into kept values (2)");
  await pair.expectEqual();
  await pair.stop();
  const copies = async () =>
    await pair.sink<{ name: string; at: string }>(
      "select table_name as name, copied_at::text as at from millrace.table_copy order by 1",
    );
  const before = await copies();
  await server.stop("immediate");
  await server.launch();
  expect(await pair.sink("select from t union all select from p")).toEqual([]);
  pair.start();
  await pair.untilRealtime();
  await pair.source("update t set v = 'c'; insert into p values (3)");
  await pair.expectEqual();
  const notCopiedAgain = async () =>
    (await copies()).flatMap(({ name, at }, i) => (at === before[i]?.at ? [name] : []));
  await waitFor("the copies to be recorded", async () => Bun.deepEquals(await notCopiedAgain(), ["kept"]));
  await pair.stop();
  const after = await copies();
  // What was not lost is not brought again.
  pair.start();
  await pair.untilRealtime();
  await pair.stop();
  expect(await copies()).toEqual(after);
});

test("a synchronous standby that is not there is told of, and waited for", async () => {
  await using sinkServer = await PostgresServer.start({ settings: { fsync: "off" } });
  await using pair = await PipelineRig.create(server, `sv${++count}`, { sinkServer });
  await pair.source("create table t (id int primary key)");
  pair.start();
  await pair.untilRealtime();
  const setStandby = async (name: string) => {
    await pair.sink(`alter system set synchronous_standby_names = '${name}'`);
    await pair.sink("select pg_reload_conf()");
  };
  await setStandby("absent");
  await pair.source("insert into t values (1)");
  const waits = () => pair.warnings.some((reason) => reason.includes("synchronous_standby_names"));
  await waitFor("the warning", waits, { timeoutMs: 30_000 });
  await setStandby("");
  await pair.expectEqual();
  await waitFor("a status without it", () => pair.phases.at(-1)?.health.kind === "heartbeat");
  await pair.stop();
});

test("a role whose settings would end its transactions, or have them fail side by side", async () => {
  await using pair = await rig();
  await pair.source(
    "create table t (id int primary key, v text); create table u (id int primary key); create table w (id int primary key); insert into t select g, repeat('v', 50) from generate_series(1, 30000) g",
  );
  await server.query("create role hasty login");
  await server.query(`grant create, temporary on database "${pair.sinkDatabase}" to hasty`);
  await server.query(
    "alter role hasty set transaction_timeout = '50ms'; alter role hasty set default_transaction_isolation = 'serializable'",
  );
  await pair.sink("grant create, usage on schema public to hasty");
  pair.sinkUser = "hasty";
  pair.start();
  await pair.untilRealtime();
  await pair.source("update t set v = 'w'");
  await pair.expectEqual();
  await pair.stop();
});
