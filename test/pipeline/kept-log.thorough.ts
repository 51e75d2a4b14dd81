// While tables are copied the slot keeps the source's log: the status tells how much, and warns while there is time.

import { expect, test } from "bun:test";
import { examineKeptLog, judgeKeptLog, type KeptLogFacts } from "../../src/source/postgres/slot/kept-log.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const megabyte = 1024 ** 2;

test("what a copy makes the slot keep is told, and warned of before it is lost", async () => {
  const settings = { fsync: "off", max_slot_wal_keep_size: "128MB" };
  await using server = await PostgresServer.start({ settings });
  await using rig = await PipelineRig.create(server, "kept");
  await rig.source("create table t (id int primary key); insert into t values (1)");
  await rig.sink("create table t (id int primary key)");
  const holder = await server.connect(rig.sinkDatabase);
  rig.beforeCopies = async () => {
    await holder.query("begin; lock table t in share mode");
  };
  rig.start();
  await waitFor("the copy", () => rig.progress?.snapshot.copying === 1);
  for (let i = 0; i < 8; i++) {
    await rig.source("select pg_logical_emit_message(false, 'load', repeat('x', 10000000))");
  }
  await waitFor("the warning", () =>
    rig.warnings.some((reason) => reason.includes("max_slot_wal_keep_size (0.13 GB)")),
  );
  await waitFor("the number", () => (rig.progress?.lagBytes ?? 0) > 64 * megabyte);
  expect(rig.phases.at(-1)).toMatchObject({ phase: { name: "snapshot" }, health: { kind: "warning" } });
  await holder.end();
  await rig.untilRealtime();
  await waitFor("its end", () => rig.phases.at(-1)?.health.kind === "heartbeat");
  await rig.expectEqual();
  await rig.stop();
});

test("a transaction that stays open makes the slot keep the log though the sink has all of it: it is named, and how to end it", async () => {
  const settings = { fsync: "off", max_slot_wal_keep_size: "128MB", max_prepared_transactions: 5 };
  await using server = await PostgresServer.start({ settings });
  const table = "create table t (id int primary key)";
  await using rig = await PipelineRig.streaming(server, "open", { source: table });
  await rig.source("begin; insert into t values (1); prepare transaction 'it''s'");
  await using session = await rig.sourceSession();
  await session.query("begin; insert into t values (2)");
  const { rows } = await session.query<{ pid: number }>("select pg_backend_pid() as pid");
  for (let i = 0; i < 8; i++) {
    await rig.source("select pg_logical_emit_message(false, 'load', repeat('x', 10000000))");
  }
  await rig.source("insert into t values (3)");
  await rig.expectEqual();
  const warnedOf = (text: string) => () => {
    const { phase, health } = rig.phases.at(-1)!;
    return phase.name === "realtime" && health.kind === "warning" && health.reason.includes(text);
  };
  const rollback = `If it was forgotten, in database ${rig.sourceDatabase}: ROLLBACK PREPARED 'it''s';`;
  await waitFor("the prepared one", warnedOf(rollback));
  await rig.source("rollback prepared 'it''s'");
  const terminate = `SELECT pg_terminate_backend(${rows[0]!.pid});`;
  await waitFor("the session's", warnedOf(terminate));
  expect(rig.warnings.at(-1)).toContain("With more than max_slot_wal_keep_size (0.13 GB) the slot is lost");
  await session.query("rollback");
  await waitFor("its end", () => rig.phases.at(-1)?.health.kind === "heartbeat");
  await rig.stop();
});

test("from version 18 on a slot that is idle for too long amid the first copies is lost: the warning names that setting, and Resume works", async () => {
  const settings = { fsync: "off", idle_replication_slot_timeout: "1s" };
  await using server = await PostgresServer.start({ major: 18, settings });
  await using rig = await PipelineRig.create(server, "idle", { isSupervised: true });
  await rig.source("create table t (id int primary key); insert into t select generate_series(1, 10)");
  const held = Promise.withResolvers<void>();
  rig.copiesHeld = held.promise;
  rig.start();
  await waitFor("the copy", () => rig.progress?.snapshot.copying === 1);
  const warning = await waitFor("the warning", async () => {
    await rig.source("checkpoint");
    return rig.warnings.find((reason) => reason.includes("is lost"));
  });
  expect(warning).toContain("idle (stopped, or copying) for longer than idle_replication_slot_timeout");
  expect(warning).toContain("ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();");
  expect(warning).not.toContain("max_slot_wal_keep_size");
  held.resolve();
  expect(await rig.ended()).toMatchObject({ code: "slot_invalidated" });
  await rig.source("alter system set idle_replication_slot_timeout = 0");
  await rig.source("select pg_reload_conf()");
  await rig.source("insert into t values (11)");
  rig.resumes = true;
  rig.start();
  await rig.expectEqual();
  await rig.stop();
});

test("how far the sink is behind is told also of what is logged while the source waits for it", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  const tables = "create table t (id int primary key, v text)";
  await using rig = await PipelineRig.streaming(server, "behind", { source: tables, sink: tables });
  const load = (from: number, to: number) =>
    rig.source(`insert into t select g, repeat('x', 2000) from generate_series(${from}, ${to}) g`);
  const holder = await server.connect(rig.sinkDatabase);
  await holder.query("begin; lock table t in share mode");
  await load(1, 20_000);
  await waitFor("the first", () => (rig.progress?.lagBytes ?? 0) > 30 * megabyte);
  // The walsender can send no more, and says nothing of this.
  await load(20_001, 40_000);
  await waitFor("the second", () => (rig.progress?.lagBytes ?? 0) > 70 * megabyte);
  await holder.end();
  await rig.expectEqual();
  await waitFor("its end", () => rig.progress?.lagBytes === 0);
  await rig.stop();
});

test("log that nobody reads any more is warned of, though all of it is acknowledged and no transaction is open", async () => {
  await using server = await PostgresServer.start({
    settings: { fsync: "off", max_slot_wal_keep_size: "128MB" },
  });
  await using client = await server.connect();
  await using writer = await server.connect();
  await client.query("create table t (id int primary key); create publication p for table t");
  await client.query("select pg_create_logical_replication_slot('s', 'pgoutput')");
  await writer.query("begin; insert into t values (1)");
  for (let i = 0; i < 8; i++)
    await client.query("select pg_logical_emit_message(false, 'load', repeat('x', 10000000))");
  await client.query(
    "select count(*) from pg_logical_slot_get_binary_changes('s', null, null, 'proto_version', '1', 'publication_names', 'p')",
  );
  await writer.query("commit");
  expect((await examineKeptLog(client, "s", true))?.warning).toContain(
    "With more than max_slot_wal_keep_size (0.13 GB)",
  );
});

test("it is much from half of the server's limit on, or from 10 GB where there is none", () => {
  const facts = {
    safeBytes: null,
    limitBytes: 100 * megabyte,
    lostBy: null,
    isAcknowledged: false,
    heldFor: null,
  };
  const judged = (bytes: number, others: Partial<KeptLogFacts> = {}, isResumable = true) =>
    judgeKeptLog("s", { ...facts, bytes, ...others }, isResumable);
  const warningOf = (...about: Parameters<typeof judged>) => judged(...about).warning;
  expect(warningOf(9.9 * 1024 * megabyte, { limitBytes: null })).toBeNull();
  expect(warningOf(10 * 1024 * megabyte, { limitBytes: null })).toContain("keeps 10 GB of the source's log");
  expect(warningOf(49 * megabyte)).toBeNull();
  expect(warningOf(50 * megabyte)).toContain("ALTER SYSTEM SET max_slot_wal_keep_size");
  expect(warningOf(0, { lostBy: "wal_removed" })).toContain("more than max_slot_wal_keep_size (0.10 GB)");
  expect(warningOf(0, { lostBy: "wal_removed" })).toContain("send the command Resume");
  expect(warningOf(0, { lostBy: "wal_removed" }, false)).toContain("send the command ReInitialize");
  expect(warningOf(0, { lostBy: "wal_removed" }, false)).not.toContain("Resume");
  // The server releases it by itself, as after a copy.
  expect(warningOf(50 * megabyte, { isAcknowledged: true })).toBeNull();
  // Nothing is left of what might have been written.
  expect(judged(0, { lostBy: "wal_removed" }).safeBytes).toBe(0);
});
