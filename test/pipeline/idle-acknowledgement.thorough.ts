// What held nothing for a connector is acknowledged soon, and when the connector stops: a restart decodes little of it again. At the pace
// of production, with both kinds of sinks.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Lsn, parseLsn } from "../../src/change/lsn.ts";
import { isWholeMatrix } from "../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline/pipeline-rig.ts";
import { writeElsewhere } from "../support/servers/foreign-log.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookStage } from "../support/webhook/webhook-stage.ts";

setDefaultTimeout(120_000);

const megabyte = 1024 * 1024;
/** What is logged between an advance and the look at it. */
const little = 2 * megabyte;
const much = isWholeMatrix ? 200 : 64;

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_wal_size: "1GB" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const onlyT = {
  name: "x",
  default_action: "Exclude" as const,
  schemas: [
    {
      name: "public",
      action: "Exclude" as const,
      tables: [{ name: "t", action: "Include" as const, columns: [], history_enabled: false }],
    },
  ],
};

interface SlotPlace {
  readonly confirmed: Lsn;
  /** Bytes from there to the end of the log. */
  readonly distance: number;
}

async function slotPlace(slot: string): Promise<SlotPlace> {
  const [row] = await server.query<{ at: string; end: string }>(
    `select confirmed_flush_lsn::text as at, pg_current_wal_lsn()::text as end from pg_replication_slots where slot_name = '${slot}'`,
  );
  const confirmed = parseLsn(row!.at);
  return { confirmed, distance: Number(parseLsn(row!.end) - confirmed) };
}

const untilNear = (slot: string) =>
  waitFor("the acknowledgement", async () => (await slotPlace(slot)).distance < little, {
    timeoutMs: 5_000,
    intervalMs: 100,
  });

/** What a busy server has not read by then, no stop can acknowledge. */
const untilRead = (slot: string) =>
  waitFor("the server to read its log", async () => {
    const [sender] = await server.query<{ distance: number }>(
      "select (pg_current_wal_lsn() - sent_lsn)::float8 as distance from pg_stat_replication " +
        `where pid = (select active_pid from pg_replication_slots where slot_name = '${slot}')`,
    );
    return sender !== undefined && sender.distance < little;
  });

let count = 0;
async function postgresRig(options: RigOptions = {}): Promise<PipelineRig> {
  const rig = await PipelineRig.create(server, `idle_ack${++count}`, {
    source: { catalog: onlyT },
    ...options,
  });
  await rig.source("create table t (id int primary key); insert into t values (1)");
  rig.start();
  await rig.untilRealtime();
  return rig;
}

async function webhookStage(): Promise<WebhookStage> {
  const sql = "create table t (id int primary key); insert into t values (1)";
  const stage = await WebhookStage.create(server, `idle_ack${++count}`, sql, { source: { catalog: onlyT } });
  await stage.start();
  await stage.untilRealtime();
  return stage;
}

const rowsAtSink = (rig: PipelineRig) => rig.sink<{ id: number }>("select id from t order by id");
const checkpointOf = async (rig: PipelineRig) =>
  parseLsn((await rig.sink<{ at: string }>("select resume_lsn::text as at from millrace.checkpoint"))[0]!.at);

test("a Postgres sink: within 5 s, at a stop at once, and nothing is missing afterwards", async () => {
  await using rig = await postgresRig();
  await writeElsewhere(server, rig.sourceDatabase, "unselected", much);
  await untilNear(rig.slot);
  expect((await slotPlace(rig.slot)).confirmed).toBeLessThanOrEqual(await checkpointOf(rig));
  await writeElsewhere(server, rig.sourceDatabase, "unselected", much);
  await untilRead(rig.slot);
  await rig.stop();
  const { confirmed, distance } = await slotPlace(rig.slot);
  expect(distance).toBeLessThan(little);
  expect(confirmed).toBeLessThanOrEqual(await checkpointOf(rig));
  await rig.source("insert into t values (2)");
  rig.start();
  await waitFor("the row", async () => (await rowsAtSink(rig)).length === 2);
  await rig.stop();
});

test("a webhook: within 5 s, at a stop at once, and nothing is missing afterwards", async () => {
  await using stage = await webhookStage();
  const slot = `millrace_${stage.database}`;
  const checkpoint = () => stage.record!.checkpoint.resumeLsn;
  await writeElsewhere(server, stage.database, "unselected", much);
  await untilNear(slot);
  expect((await slotPlace(slot)).confirmed).toBeLessThanOrEqual(checkpoint());
  await writeElsewhere(server, stage.database, "unselected", much);
  await untilRead(slot);
  await stage.life.stop();
  const { confirmed, distance } = await slotPlace(slot);
  expect(distance).toBeLessThan(little);
  expect(confirmed).toBeLessThanOrEqual(checkpoint());
  await stage.sql("insert into t values (2)");
  await stage.start();
  await waitFor("the row", () => stage.receiver.delivered.some(({ body }) => body.includes('"id":2')));
  await stage.life.stop();
});

test("requests that end while the sink closes are acknowledged too", async () => {
  await using stage = await webhookStage();
  stage.receiver.script = () => ({ kind: "answer", status: 200, delayMs: 1_000 });
  await stage.sql("insert into t values (2)");
  await waitFor("the request", () => stage.receiver.inFlight === 1);
  await stage.life.stop();
  const [committed] = await stage.sql<{ at: string }>("select pg_current_wal_lsn()::text as at");
  const { confirmed } = await slotPlace(`millrace_${stage.database}`);
  expect(Number(parseLsn(committed!.at) - confirmed)).toBeLessThan(little);
  expect(stage.record!.checkpoint.resumeLsn).toBeGreaterThanOrEqual(confirmed);
  await stage.start();
  await stage.untilRealtime();
  await Bun.sleep(500);
  expect(stage.receiver.delivered.filter(({ body }) => body.includes('"id":2'))).toHaveLength(1);
  await stage.life.stop();
});

test("changes of ours that come just before a stop are never passed over", async () => {
  await using rig = await postgresRig();
  const stops = isWholeMatrix ? 12 : 6;
  for (let id = 10; id < 10 + stops; id++) {
    await rig.source(
      `insert into t values (${id}); select pg_logical_emit_message(false, 'x', repeat('x', 2000000))`,
    );
    await Bun.sleep(Math.random() * 30);
    await rig.stop();
    rig.start();
    await rig.untilRealtime();
  }
  await waitFor("all rows", async () => (await rowsAtSink(rig)).length === 1 + stops);
  await rig.stop();
});

test("the slot is never ahead of the checkpoint, also where the run dies as it advances", async () => {
  await using rig = await postgresRig({ pace: { advanceMs: 20 } });
  let rows = 1;
  for (let round = 0; round < (isWholeMatrix ? 12 : 6); round++) {
    const stopWriting = new AbortController();
    const noise = (async () => {
      while (!stopWriting.signal.aborted)
        await rig.source("select pg_logical_emit_message(false, 'x', repeat('x', 1200000))");
    })();
    await Bun.sleep(100 + Math.random() * 300);
    // The slot is read first: the checkpoint only grows.
    for (let i = 0; i < 5; i++)
      expect((await slotPlace(rig.slot)).confirmed).toBeLessThanOrEqual(await checkpointOf(rig));
    if (round % 2 === 0) rig.dieAt(1 + Math.floor(Math.random() * 6));
    await Bun.sleep(50);
    await rig.crash();
    stopWriting.abort();
    await noise;
    await rig.source(`insert into t values (${++rows})`);
    rig.start();
    await rig.untilRealtime();
  }
  await waitFor("all rows", async () => (await rowsAtSink(rig)).length === rows);
  await rig.stop();
});

test("while little is logged, the sink's checkpoint stays: nothing is written every few seconds", async () => {
  await using rig = await postgresRig();
  const [written] = await rig.source<{ end: string }>(
    "select pg_logical_emit_message(false, 'x', repeat('x', 4000000))::text as end",
  );
  // A busy server writes this part of its log a while later.
  await waitFor("the advance", async () => (await slotPlace(rig.slot)).confirmed >= parseLsn(written!.end));
  await Bun.sleep(1_000);
  const before = await checkpointOf(rig);
  for (let i = 0; i < 8; i++) {
    await rig.source("create temporary table noise (id int)");
    await Bun.sleep(1_000);
  }
  expect(await checkpointOf(rig)).toBe(before);
  await rig.stop();
});
