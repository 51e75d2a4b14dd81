// Every state of a slot on a real server: what the run reports, and how it reacts.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Checkpoint } from "../../../../src/change/checkpoint.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import { clientOptions } from "../../../../src/connection/postgres-client.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { readKeptLog } from "../../../../src/source/postgres/slot/kept-log.ts";
import { readSlotState } from "../../../../src/source/postgres/slot/slot.ts";
import { judgeSlot, type SlotState } from "../../../../src/source/postgres/slot/slot-state.ts";
import { ReplicationClient } from "../../../../src/source/postgres/stream/replication-client.ts";
import { fullConnection } from "../../../support/api/connector-config.ts";
import { PipelineRig } from "../../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { slotRelease } from "../../../support/servers/slot-release.ts";
import { startStandby } from "../../../support/servers/standby.ts";
import { TcpProxy } from "../../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_prepared_transactions: 5 } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

/** A connector with one table, between two databases of `on`. */
async function connector(on = server): Promise<PipelineRig> {
  const rig = await PipelineRig.create(on, `slot${++count}`);
  await rig.source("create table t (id int primary key)");
  return rig;
}

/** A connector that has run and is stopped. */
async function stopped(on = server): Promise<PipelineRig> {
  const rig = await connector(on);
  rig.start();
  await rig.untilRealtime();
  await rig.stop();
  await slotRelease(on, rig.slot);
  return rig;
}

async function failure(rig: PipelineRig): Promise<MillraceError> {
  rig.start();
  return (await rig.ended()) as MillraceError;
}

/** Reads from the connector's slot under another name, as `applicationName`. */
async function hold(rig: PipelineRig, applicationName: string): Promise<ReplicationClient> {
  const connection = fullConnection(server.connection(rig.sourceDatabase));
  return await ReplicationClient.start(
    { ...clientOptions(connection, "replication", false), application_name: applicationName },
    { slot: rig.slot, publications: [rig.slot], startLsn: lsn(0n), form: "text" },
    {
      onMessage: () => {},
      onLargeMessage: () => {},
      onBytes: () => {},
      onKeepalive: () => {},
      xidBytes: () => 0,
      onFailure: () => {},
    },
    { signal: AbortSignal.timeout(30_000) },
  );
}

async function slotOf(rig: PipelineRig): Promise<Record<string, unknown> | undefined> {
  const [row] = await rig.source(
    `select s.*, to_jsonb(s) -> 'failover' as is_failover from pg_replication_slots s where slot_name = '${rig.slot}'`,
  );
  return row;
}

test("the slot is a failover slot, if the server supports them", async () => {
  await using rig = await stopped();
  const [version] = await server.query<{ n: number }>(
    "select current_setting('server_version_num')::int as n",
  );
  expect((await slotOf(rig))?.is_failover ?? null).toBe(version!.n >= 170_000 ? true : null);
});

test("a walsender that an earlier run left behind is terminated, and its slot is reused at once", async () => {
  await using rig = await stopped();
  await using _stale = await hold(rig, "millrace replication rig");
  const begunAt = performance.now();
  rig.start();
  await rig.untilRealtime();
  // Any other walsender would be waited for longer.
  expect(performance.now() - begunAt).toBeLessThan(8_000);
  await rig.source("insert into t values (1)");
  await rig.expectEqual();
  await rig.stop();
});

test.each(["pg_recvlogical", "millrace replication elsewhere"])(
  "a slot that %s holds is left to it, and the reason names it",
  async (applicationName) => {
    await using rig = await stopped();
    await using _holder = await hold(rig, applicationName);
    const { active_pid: pid } = (await slotOf(rig)) ?? {};
    const error = await failure(rig);
    expect(error).toMatchObject({ code: "slot_active", retry: "transient" });
    expect(error.message).toContain(
      `process ${pid} (application ${applicationName}, user postgres, from 127.0.0.1:`,
    );
    expect(error.message).toContain(`pg_terminate_backend(${pid})`);
    expect((await slotOf(rig))?.active_pid).toBe(pid);
  },
);

describe("a slot with the connector's name that it did not create is not dropped", () => {
  test.each([
    [
      "a physical one",
      (name: string) => `select pg_create_physical_replication_slot('${name}', true)`,
      "a physical slot",
    ],
    [
      "one of another database",
      (name: string) => `select pg_create_logical_replication_slot('${name}', 'pgoutput')`,
      "in database postgres",
    ],
  ])("%s", async (_, sql, text) => {
    await using rig = await connector();
    await server.query(sql(rig.slot));
    const error = await failure(rig);
    expect(error.code).toBe("slot_mismatch");
    expect(error.message).toContain(text);
    expect(await slotOf(rig)).toBeDefined();
    await server.query(`select pg_drop_replication_slot('${rig.slot}')`);
  });
});

test("an invalidated slot stops the run, and the reason names the setting", async () => {
  await using small = await PostgresServer.start({
    settings: { fsync: "off", max_slot_wal_keep_size: "1MB" },
  });
  await using rig = await stopped(small);
  for (let i = 0; i < 6; i++)
    await rig.source("create table if not exists x (); drop table x; select pg_switch_wal()");
  await rig.source("checkpoint");
  expect((await slotOf(rig))?.wal_status).toBe("lost");
  const error = await failure(rig);
  expect(error.code).toBe("slot_invalidated");
  expect(error.message).toContain("max_slot_wal_keep_size (1MB)");
  expect(error.message).toContain("ReInitialize");
  rig.initialized = false;
  rig.start();
  await rig.expectEqual();
  await rig.stop();
});

test("from version 18 on: a slot that was idle for too long is reported, and a dropped publication that is silently skipped is detected", async () => {
  await using newest = await PostgresServer.start({
    major: 18,
    settings: { fsync: "off", idle_replication_slot_timeout: "1s" },
  });
  await using dropped = await connector(newest);
  dropped.start();
  await dropped.untilRealtime();
  await dropped.source(`drop publication ${dropped.slot}; insert into t values (1)`);
  const missing = (await dropped.ended()) as MillraceError;
  expect(missing.code).toBe("publication_missing");
  expect(missing.message).toContain("ReInitialize");

  await using rig = await stopped(newest);
  await waitFor("the invalidation", async () => {
    await rig.source("checkpoint");
    return (await slotOf(rig))?.wal_status === "lost";
  });
  const idle = await failure(rig);
  expect(idle.code).toBe("slot_invalidated");
  expect(idle.message).toContain("ALTER SYSTEM SET idle_replication_slot_timeout = 0;");
});

test.each([16, 17])(
  "a standby of version %d that removed rows of the catalog: the reason says so",
  async (major) => {
    await using primary = await PostgresServer.start({ major, settings: { fsync: "off" } });
    await using standby = await startStandby(primary, { hot_standby_feedback: "off" }, major);
    await using session = await standby.connect();
    const creating = session.query("select pg_create_logical_replication_slot('s', 'pgoutput')");
    // It waits for the primary to log which transactions run.
    const logged = setInterval(() => void primary.query("select pg_log_standby_snapshot()"), 200);
    await creating.finally(() => clearInterval(logged));
    await primary.query("create table t (id int); drop table t");
    await primary.query("vacuum full pg_class");
    await waitFor("the invalidation", async () => (await readSlotState(session, "s")).walStatus === "lost");
    const { invalidationReason } = await readSlotState(session, "s");
    expect(invalidationReason).toBe("rows_removed");
    expect((await readKeptLog(session, "s"))?.lostBy).toBe("rows_removed");
  },
);

test("no free slot, no free walsender, and a low wal_level each have their own code", async () => {
  await using tight = await PostgresServer.start({
    settings: { fsync: "off", max_replication_slots: 1, max_wal_senders: 1 },
  });
  await using rig = await connector(tight);
  await tight.query("select pg_create_physical_replication_slot('taken')");
  const noSlot = await failure(rig);
  expect(noSlot).toMatchObject({ code: "slots_exhausted", retry: "transient" });
  expect(noSlot.message).toContain("ALTER SYSTEM SET max_replication_slots");
  await tight.query("select pg_drop_replication_slot('taken')");

  const connection = fullConnection(tight.connection(rig.sourceDatabase));
  await rig.source(`select pg_create_logical_replication_slot('other', 'pgoutput')`);
  {
    await using _holder = await ReplicationClient.start(
      clientOptions(connection, "replication", false),
      { slot: "other", publications: [rig.slot], startLsn: lsn(0n), form: "text" },
      {
        onMessage: () => {},
        onLargeMessage: () => {},
        onBytes: () => {},
        onKeepalive: () => {},
        xidBytes: () => 0,
        onFailure: () => {},
      },
      { signal: AbortSignal.timeout(30_000) },
    );
    const noSender = await failure(rig);
    expect(noSender).toMatchObject({ code: "walsenders_exhausted", retry: "transient" });
    expect(noSender.message).toContain("ALTER SYSTEM SET max_wal_senders");
  }
  await waitFor(
    "the walsender's end",
    async () => (await rig.source("select from pg_stat_replication")).length === 0,
  );
  await rig.source("select pg_drop_replication_slot('other')");
});

test("a lowered wal_level is reported, and a start that cannot succeed leaves no publication", async () => {
  await using replica = await PostgresServer.start({ settings: { fsync: "off", wal_level: "replica" } });
  await using rig = await connector(replica);
  const error = await failure(rig);
  expect(error.code).toBe("wal_level_not_logical");
  expect(error.message).toContain("ALTER SYSTEM SET wal_level = 'logical';");
  expect(error.commands).toEqual(["ALTER SYSTEM SET wal_level = 'logical'"]);
  expect(await rig.source("select from pg_publication")).toEqual([]);
  // As if it had run before, and somebody had dropped the slot so that the server starts.
  rig.initialized = true;
  await rig.sink(
    `insert into millrace.checkpoint (connector_id, resume_lsn, last_version) values ('slot${count}', '0/1', 0)`,
  );
  expect((await failure(rig)).code).toBe("wal_level_not_logical");
});

describe("a slot creation that waits for a transaction", () => {
  const lastWarning = (rig: PipelineRig) => {
    const { phase, health } = rig.phases.findLast((each) => each.health.kind === "warning") ?? {};
    return health?.kind === "warning" ? { phase, reason: health.reason, commands: health.commands } : null;
  };

  async function stopAtOnce(rig: PipelineRig): Promise<void> {
    const begunAt = performance.now();
    await rig.stop();
    // The transaction continues. The wait for a temporary slot would be twice as long.
    expect(performance.now() - begunAt).toBeLessThan(10_000);
    rig.phases.length = 0;
  }

  /** The transaction continues. The wait at the server ends because the run cleans up. */
  async function expectNothingLeft(rig: PipelineRig): Promise<void> {
    await waitFor("nothing is left", async () => {
      const walsenders = await rig.source("select from pg_stat_activity where backend_type = 'walsender'");
      return walsenders.length === 0 && (await slotOf(rig)) === undefined;
    });
  }

  test("is reported with the process, its age and its query, and leaves nothing when it times out or is stopped", async () => {
    await using rig = await connector();
    await using writer = await server.connect(rig.sourceDatabase);
    const [own] = (
      (await writer.query("begin; insert into t values (1); select pg_backend_pid() as pid")) as unknown as {
        rows: { pid: number }[];
      }[]
    ).slice(-1)[0]!.rows;
    rig.start();
    const { phase, reason, commands } = await waitFor("the warning", () => lastWarning(rig));
    expect(phase).toEqual({ name: "initialize", step: "make the replication slot" });
    expect(commands).toEqual([`SELECT pg_terminate_backend(${own!.pid})`]);
    expect(reason).toMatch(
      new RegExp(
        `^Making a replication slot waits for the transaction of process ${own!.pid}, open for \\d+ s \\(idle in transaction: begin; insert into t`,
      ),
    );
    await rig.crash();
    await expectNothingLeft(rig);

    rig.phases.length = 0;
    rig.start();
    await waitFor("it waits again", () => lastWarning(rig));
    await stopAtOnce(rig);
    await expectNothingLeft(rig);

    rig.start();
    await waitFor("it waits again", () => lastWarning(rig));
    await writer.query("commit");
    await rig.expectEqual();
    expect(rig.phases.at(-1)?.health.kind).not.toBe("warning");
    await rig.stop();
  });

  test("is given up when the network drops its connections", async () => {
    await using proxy = await TcpProxy.start(server.port);
    await using rig = await connector();
    const connection = { ...server.connection(rig.sourceDatabase), port: proxy.port };
    rig.reconfigure({ connection: fullConnection(connection) });
    await using writer = await server.connect(rig.sourceDatabase);
    await writer.query("begin; insert into t values (1)");
    rig.start();
    await waitFor("the warning", () => lastWarning(rig));
    proxy.strand();
    await writer.query("commit");
    let error: unknown = null;
    void rig.ended().then((reason) => {
      error = reason;
    });
    await waitFor("the end of the run", () => error, { timeoutMs: 30_000 });
    expect(error).toMatchObject({ code: "source_connection_lost" });
  });

  test("is reported for a new table's temporary slot as well", async () => {
    await using rig = await connector();
    rig.start();
    await rig.untilRealtime();
    await rig.source("begin; insert into t values (1); prepare transaction 'forgotten'");
    await rig.source("create table later (id int primary key); insert into later values (1)");
    const { phase, reason } = await waitFor("the warning", () => lastWarning(rig));
    expect(phase).toEqual({ name: "realtime" });
    expect(reason).toContain("ROLLBACK PREPARED 'forgotten';");
    await stopAtOnce(rig);
    rig.start();
    await waitFor("it waits again", () => lastWarning(rig));
    await rig.source("rollback prepared 'forgotten'");
    await rig.expectEqual();
    // The temporary slot is gone after the copy.
    const others = `select from pg_replication_slots where slot_name <> '${rig.slot}'`;
    await waitFor("no other slot", async () => (await rig.source(others)).length === 0);
    await rig.stop();
  });
});

const lost: SlotState = {
  exists: true,
  plugin: "pgoutput",
  database: "d",
  isOfDatabase: true,
  confirmedFlushLsn: "0/1",
  place: "0/1 0/1",
  catalogXmin: 700,
  walStatus: "lost",
  invalidationReason: null,
  maxSlotWalKeepSize: "1GB",
  walLevel: "logical",
  logEnd: "0/2",
  isInRecovery: false,
  isSynced: false,
};
const checkpoint = { resumeLsn: lsn(1n), partial: null, lastVersion: 0n };

test("each invalidation reason says how to avoid the next one", () => {
  const reason = (invalidationReason: string | null) =>
    judgeSlot("s", { ...lost, invalidationReason }, checkpoint)?.message ?? "";
  expect(reason(null)).toContain(
    "or a transaction had been open, for more than max_slot_wal_keep_size (1GB)",
  );
  expect(reason("idle_timeout")).toContain("ALTER SYSTEM SET idle_replication_slot_timeout = 0;");
  expect(reason("rows_removed")).toContain("hot_standby_feedback = on");
  expect(reason("wal_level_insufficient")).toContain("wal_level = 'logical'");
  expect(judgeSlot("s", { ...lost, walStatus: "extended" }, checkpoint)).toBeNull();
});

const reserved = { ...lost, walStatus: "reserved" };

test.each([
  ["slot_missing", { ...lost, exists: false }],
  ["slot_invalidated", lost],
  ["slot_ahead", { ...reserved, confirmedFlushLsn: "0/2" }],
  ["source_behind", { ...reserved, logEnd: "0/0" }],
] as const)("%s names Resume where the connector may be given it", (code, slot) => {
  const judged = (isResumable: boolean) => judgeSlot("s", slot, checkpoint, { isResumable });
  expect(judged(true)?.code).toBe(code);
  expect(judged(true)?.message).toContain("send the command Resume");
  expect(judged(false)?.message).toContain("send the command ReInitialize to copy everything again.");
  expect(judged(false)?.message).not.toContain("Resume");
});

test("the log has to have all that the sink may have received, also beyond the checkpoint", () => {
  const judged = (beyond: Partial<Checkpoint>, slot: Partial<SlotState> = {}) =>
    judgeSlot("s", { ...reserved, logEnd: "0/5", ...slot }, { ...checkpoint, ...beyond });
  expect(judged({ reached: lsn(5n) })).toBeNull();
  expect(judged({ reached: lsn(6n) })).toMatchObject({
    code: "source_behind",
    message: expect.stringContaining("ends at 0/5, before 0/6, up to which the sink may have changes"),
  });
  expect(judged({ reached: lsn(6n) }, { isInRecovery: true })?.code).toBe("source_is_standby");
  expect(judged({ partial: { commitLsn: lsn(4n), ordinal: 9 } })).toBeNull();
  expect(judged({ partial: { commitLsn: lsn(5n), ordinal: 0 } })?.code).toBe("source_behind");
});

test("at a standby, only a slot of its own tells of a loss", () => {
  const standby: SlotState = { ...lost, isInRecovery: true };
  const code = (slot: Partial<SlotState>, wasStandby: boolean) =>
    judgeSlot("s", { ...standby, ...slot }, checkpoint, { wasStandby })?.code ?? null;
  const [missing, early] = [{ exists: false }, { walStatus: "reserved", logEnd: "0/0" }];
  for (const wasStandby of [false, true]) {
    expect(code({}, wasStandby)).toBe("slot_invalidated");
    expect(code({ walStatus: "reserved" }, wasStandby)).toBeNull();
    expect(code({ isSynced: true }, wasStandby)).toBe("source_is_standby");
    expect(code(early, wasStandby)).toBe("source_is_standby");
    expect(code(missing, wasStandby)).toBe(wasStandby ? "slot_missing" : "source_is_standby");
    expect(code({ ...early, isInRecovery: false }, wasStandby)).toBe("source_behind");
    expect(code({ ...missing, isInRecovery: false }, wasStandby)).toBe("slot_missing");
  }
});
