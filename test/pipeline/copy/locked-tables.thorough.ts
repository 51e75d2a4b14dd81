// Tables that somebody locks before they are published: nobody waits for them, neither the stream nor whoever wants another table.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { PostgresSourceConfig } from "../../../src/connector/config/source-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

test("before the beginning, and while others stream", async () => {
  await using rig = await PipelineRig.create(server, "locked");
  await rig.source(
    "create table a (id serial primary key); create table b (id serial primary key); insert into a default values",
  );
  await using holder = await rig.sourceSession();
  await holder.query("begin; lock table b in share mode");
  rig.start();
  const isTold = () =>
    rig.phases.some(({ phase }) => phase.name === "initialize" && phase.step.includes("public.b is locked"));
  await waitFor("the lock to be told", () => isTold());
  // A deadlock would be found for who holds the one and wants the other: nothing is held for so long.
  await holder.query("alter table a add column v text");
  await holder.query("commit");
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.stop();
  await rig.source(
    "create table c (id int primary key); create table d (id int primary key); insert into c values (1); insert into d values (1)",
  );
  await holder.query("begin; lock table c in share mode");
  rig.start();
  await waitFor("the lock to be told", () =>
    rig.warnings.some((reason) => reason.includes("public.c is locked")),
  );
  await rig.untilRealtime();
  await rig.source("insert into a default values; update a set v = 'x'");
  await rig.expectSame("select id, v from a order by id", 5_000);
  expect(await rig.snapshot("a", false)).toBeNull();
  expect(await rig.snapshot("d", false)).toMatchObject({ code: "table_locked" });
  await holder.query("commit");
  await rig.expectEqual();
  expect(rig.phases.at(-1)?.health.kind).toBe("heartbeat");
  await rig.stop();
});

test.each([
  ["that can be copied beside the stream", ""],
  ["that the stream waits for", " unique"],
])("at the sink, before their first copy, %s: the others go on, also from a start", async (_, unique) => {
  const b = "create table b (id int primary key, v text)";
  await using rig = await PipelineRig.streaming(
    server,
    `lockedatsink${unique.length}`,
    { source: "create table a (id int primary key)" },
    { retryPace: { againMs: 200, mostMs: 400, changedAgainMs: 100 } },
  );
  await rig.sink(`create table b (id int primary key, v text${unique}); insert into b values (100, 'mine')`);
  await using holder = await server.connect(rig.sinkDatabase);
  await holder.query("begin; lock table b in access exclusive mode");
  await rig.source(`${b}; insert into b values (1, 'b')`);
  const isTold = () => rig.table("b")?.reason?.includes("is locked by another session at the sink") === true;
  await waitFor("the lock to be told", isTold);
  const goesOn = async (id: number) => {
    await rig.source(`insert into a values (${id}); update b set v = 'later ${id}'`);
    await rig.expectSame("select id from a order by id", 5_000);
  };
  await goesOn(1);
  const triesOfCopy =
    'select query_start from pg_stat_activity where query like \'lock table only "public"."b"%\'';
  const [first] = await rig.sink(triesOfCopy);
  await waitFor("it to be tried again", async () => {
    const [now] = await rig.sink(triesOfCopy);
    return now !== undefined && !Bun.deepEquals(now, first);
  });
  await goesOn(3);
  await rig.stop();
  rig.start();
  await rig.untilRealtime();
  await goesOn(2);
  await holder.query("rollback");
  await rig.expectSame("select * from b where id < 100 order by id");
  // What somebody else has in the table stays there.
  expect(await rig.sink("select v from b where id = 100")).toEqual([{ v: "mine" }]);
  await rig.stop();
});

test("or refuse it, which leaves there what somebody else has in the table", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "refusedatsink",
    {
      source: "create table a (id int primary key)",
    },
    { sink: { migration_strategy: { allowed: [], disable_all: false } }, isSupervised: true },
  );
  await rig.sink("create table b (id int primary key, v text not null); insert into b values (100, 'mine')");
  await rig.source("create table b (id int primary key, v text); insert into b values (1, null)");
  await waitFor("it to be set aside", () => rig.table("b")?.state === "SetAside");
  await rig.sink("alter table b alter column v drop not null");
  await rig.expectSame("select * from b where id < 100 order by id");
  expect(await rig.sink("select v from b where id = 100")).toEqual([{ v: "mine" }]);
  await rig.stop();
});

test("at the sink, which the stream has written before: it waits, and leaves there what somebody else has in the table", async () => {
  const options: { -readonly [Key in keyof RigOptions]: RigOptions[Key] } = { skipSnapshots: true };
  const b = "create table b (id int primary key, v text)";
  await using rig = await PipelineRig.create(server, "lockedknown", options);
  await rig.source(`create table a (id int primary key); ${b}; insert into b values (1, 'early')`);
  await rig.sink(`${b}; insert into b values (100, 'mine')`);
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into b values (2, 'streamed')");
  await waitFor("the row", async () => (await rig.sink("select from b where id = 2")).length === 1);
  expect(await rig.snapshot("a", false)).toBeNull();
  await rig.stop();
  options.skipSnapshots = false;
  await using holder = await server.connect(rig.sinkDatabase);
  await holder.query("begin; lock table b in access exclusive mode");
  rig.start();
  const waiting = "select from pg_locks where relation = 'b'::regclass and not granted";
  await waitFor("the lock to be met", async () => (await rig.sink(waiting)).length > 0);
  // Longer than a new table's copy would wait.
  await Bun.sleep(2_000);
  await holder.query("rollback");
  await rig.expectSame("select * from b where id < 100 order by id");
  expect(await rig.sink("select v from b where id = 100")).toEqual([{ v: "mine" }]);
  await rig.stop();
});

test("while others are altered again and again, whose rows come all the same", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "lockedmany",
    { source: "create table a (id int primary key)" },
    { isSupervised: true },
  );
  await rig.source("create table c (id int primary key)");
  await using holder = await rig.sourceSession();
  await holder.query("begin; lock table c in share mode");
  await waitFor("the lock to be told", () =>
    rig.warnings.some((reason) => reason.includes("public.c is locked")),
  );
  for (const column of ["p", "q", "r", "s", "t"]) {
    await rig.source(`alter table a add column ${column} int`);
    await rig.source(`insert into a select coalesce(max(id), 0) + 1 from a`);
    await rig.expectSame(`select id, ${column} from a order by id`, 10_000);
  }
  await holder.query("commit");
  await rig.expectEqual();
  await rig.stop();
});

test("while a table has got a key, it is copied when its updates are published, too", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "lockedkey",
    { source: "create table k (id int not null, v text)" },
    { isSupervised: true },
  );
  await rig.source("insert into k values (1, 'old')");
  await rig.expectSame("select id, v from k");
  await rig.stop();
  await rig.source("alter table k add primary key (id); create table c (id int primary key)");
  await using holder = await rig.sourceSession();
  await holder.query("begin; lock table c in share mode");
  rig.start();
  await rig.untilRealtime();
  expect(await rig.snapshot("k", false)).toMatchObject({ code: "table_locked" });
  expect(rig.copies.map(({ table }) => table)).toEqual(["k"]);
  await rig.source("update k set v = 'new'");
  await holder.query("commit");
  await rig.expectEqual();
  await rig.stop();
});

test("while a webhook gets another one again, which is hashed from here on", async () => {
  const database = "locked_hook";
  await server.createDatabase(database);
  const sql = (text: string) => server.query<object>(text, database);
  await sql("create table a (id int primary key, v text); insert into a values (1, 'x')");
  await using receiver = await WebhookReceiver.start();
  const store = new RecordStore();
  const begun = { yes: false };
  const start = (source: Partial<PostgresSourceConfig>) =>
    WebhookLife.start(server.connection(database), webhookConnector(receiver.url), store, begun, source);
  const has = (path: string, text: string) => () =>
    receiver.deduplicated.some((request) => request.path === path && request.body.includes(text));
  let life = await start({});
  await waitFor("the row", has("/public/a", '"x"'));
  await life.stop();
  await sql("create table c (id int primary key); insert into c values (7)");
  await using holder = await server.connect(database);
  await holder.query("begin; lock table c in share mode");
  const columns = [{ name: "v", action: "Include" as const, hash: {} }];
  const tables = [{ name: "a", action: "Include" as const, history_enabled: false, columns }];
  life = await start({
    catalog: {
      name: "any",
      default_action: "Include",
      column_hashing: { algorithm: "Sha256", salt: "" },
      schemas: [{ name: "public", action: "Include", tables }],
    },
  });
  await waitFor("the hashed row", has("/public/a", new Bun.CryptoHasher("sha256").update("x").digest("hex")));
  expect(has("/public/c", "7")()).toBe(false);
  await holder.query("commit");
  await waitFor("the other table", has("/public/c", "7"));
  await life.stop();
});

test("a partition, while its root is copied", async () => {
  await using rig = await PipelineRig.create(server, "lockedleaf", { source: { partitions_as_root: true } });
  await rig.source(`create table root (id int primary key) partition by range (id);
    create table leaf1 partition of root for values from (0) to (10);
    create table leaf2 partition of root for values from (10) to (20); insert into root values (1), (11)`);
  await using holder = await rig.sourceSession();
  rig.beforeCopies = async () => {
    await holder.query("begin; lock table leaf2 in access exclusive mode");
  };
  rig.start();
  const waits =
    "select from pg_locks where relation = 'leaf2'::regclass and not granted and mode = 'AccessShareLock'";
  const copyWaits = `select from pg_stat_activity where query like 'lock table%' and wait_event_type = 'Lock' and exists (${waits})`;
  await waitFor("the copy to wait", async () => (await rig.source(copyWaits)).length > 0);
  await rig.source(
    "set lock_timeout = '10s'; begin; lock table only root, leaf1 in access exclusive mode; commit",
  );
  await holder.query("commit");
  await rig.untilRealtime();
  await rig.expectEqual();
  await rig.stop();
});
