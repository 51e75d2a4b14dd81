// Who may drop a slot, when a replica that was frozen goes on amid it.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { clientOptions } from "../../../../src/connection/postgres-client.ts";
import { leaseLost } from "../../../../src/errors/lease-lost.ts";
import { dropSlot } from "../../../../src/source/postgres/slot/slot.ts";
import { SourceSlot } from "../../../../src/source/postgres/slot/source-slot.ts";
import { ReplicationClient } from "../../../../src/source/postgres/stream/replication-client.ts";
import { SourceState } from "../../../../src/source/source-state.ts";
import { fullConnection } from "../../../support/api/connector-config.ts";
import { LiveRun } from "../../../support/runtime/live-run.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const slot = "millrace_dropped";
const by = { owner: "mfz3k2ab", term: 1 };
const within = () => AbortSignal.timeout(20_000);
const make = () => server.query(`select pg_create_logical_replication_slot('${slot}', 'pgoutput')`);
const isThere = async () =>
  (await server.query(`select from pg_replication_slots where slot_name = '${slot}'`)).length === 1;

async function walsender(applicationName: string): Promise<ReplicationClient> {
  await server.query(`drop publication if exists ${slot}; create publication ${slot}`);
  return await ReplicationClient.start(
    {
      ...clientOptions(fullConnection(server.connection()), "replication", false),
      application_name: applicationName,
    },
    { slot, publications: [slot], startLsn: lsn(0n), form: "text" },
    {
      onMessage: () => {},
      onLargeMessage: () => {},
      onBytes: () => {},
      onKeepalive: () => {},
      xidBytes: () => 0,
      onFailure: () => {},
    },
    { signal: within() },
  );
}

test("a slot that a higher term makes after it was confirmed that there is none is left to it", async () => {
  await make();
  await using client = await server.connect();
  let confirmations = 0;
  const confirm = async () => {
    confirmations += 1;
    if (confirmations > 1) throw leaseLost();
    // It is frozen now. Another replica takes over, and begins anew.
    await server.query(`select pg_drop_replication_slot('${slot}')`);
    await make();
  };
  const dropping = dropSlot(client, slot, within(), { ...by, confirm });
  await expect(dropping).rejects.toMatchObject({ code: "lease_lost" });
  expect(await isThere()).toBe(true);
  await dropSlot(client, slot, within(), { ...by, confirm: async () => {} });
  expect(await isThere()).toBe(false);
});

test.each([
  ["a higher term", `millrace replication ${by.owner} t2`],
  ["a higher term of many digits", `millrace replication ${by.owner} t10`],
])("a slot that %s reads from is left to it at once", async (_, name) => {
  await make();
  await using _reader = await walsender(name);
  await using client = await server.connect();
  const begunAt = performance.now();
  await expect(dropSlot(client, slot, within(), by)).rejects.toMatchObject({ code: "lease_lost" });
  expect(performance.now() - begunAt).toBeLessThan(1_500);
  expect(await isThere()).toBe(true);
  await dropSlot(client, slot, within(), { ...by, term: 11 });
  expect(await isThere()).toBe(false);
});

test.each([
  ["a lower term", `millrace replication ${by.owner} t0`],
  ["a replica that knew no terms", `millrace replication ${by.owner}`],
  ["another connector's service, as the slot is this one's", "millrace replication else t5"],
])("a slot that %s reads from is freed and dropped", async (_, name) => {
  await make();
  await using _reader = await walsender(name);
  await using client = await server.connect();
  await dropSlot(client, slot, within(), by);
  expect(await isThere()).toBe(false);
  await waitFor("no walsender", async () => {
    const rows = await server.query("select from pg_stat_replication");
    return rows.length === 0;
  });
});

test("what a higher term has moved the slot to is no loss: the run ends without a verdict", async () => {
  await make();
  await using client = await server.connect();
  const checkpoint = { resumeLsn: lsn(1n), partial: null, lastVersion: 0n };
  const check = async (save: () => Promise<void>) => {
    const state = await SourceState.load({ load: async () => "{}", save }, true);
    const context = {
      ...by,
      signal: within(),
      state,
      events: { warning: () => {} },
      sinkFollowsShapes: true,
    };
    const connection = fullConnection(server.connection());
    await new SourceSlot(slot, connection, context, undefined).check(client, checkpoint);
  };
  const refuse = () => Promise.reject(leaseLost());
  await expect(check(refuse)).rejects.toMatchObject({ code: "lease_lost" });
  await expect(check(async () => {})).rejects.toMatchObject({ code: "slot_ahead" });
  await dropSlot(client, slot, within(), by);
});

test("what is to be made at the source is told to a fenced state each time, and to another one once", async () => {
  for (const [isFenced, saves] of [
    [true, 3],
    [false, 1],
  ] as const) {
    let saved = 0;
    const store = {
      load: async () => null,
      save: async () => {
        saved += 1;
        if (saved === 3) throw leaseLost();
      },
    };
    const state = await SourceState.load(store, isFenced);
    await state.willMakeObjects();
    await state.willMakeObjects();
    const third = state.willMakeObjects();
    if (isFenced) await expect(third).rejects.toMatchObject({ code: "lease_lost" });
    else await third;
    expect(saved).toBe(saves);
  }
});

test("a second service with a connector of the same id leaves slot and publications to the first one", async () => {
  await server.query("create table t (id int primary key); create table other (id int primary key)");
  for (const database of ["first", "second"]) await server.query(`create database ${database}`);
  const schemas = [{ name: "public", default_action: "Exclude" as const, tables: [{ name: "t" }] }];
  const start = (database: string, catalog: object) =>
    LiveRun.start({
      id: "twice",
      source: {
        postgres: {
          connection: server.connection(),
          replication_type: { logical_replication: { retry_window_seconds: 1 } },
          catalog: { name: "postgres", ...catalog },
        },
      },
      sink: { postgres: { connection: server.connection(database) } },
    });
  await using first = start("first", {});
  await first.untilRealtime();
  const published = () => server.query("select * from pg_publication_tables order by 1, 2, 3");
  const before = await published();
  expect(before.length).toBe(2);
  const second = start("second", { schemas });
  // Disposed of, it would drop what is the first one's.
  const hasFailed = () => second.isOver || first.failures.length > 0;
  await waitFor("a failure", hasFailed).finally(() => second.stop());
  expect(first.failures.map(({ error }) => error.message)).toEqual([]);
  const error = second.failures.at(-1)?.error;
  expect(error).toMatchObject({ code: "slot_active", retry: "transient" });
  expect(error?.message).toContain(`Replication slot ${first.slot} is held by process `);
  expect(await published()).toEqual(before);
  await server.query("insert into t values (1)");
  const rows = () => server.query("select from t", "first");
  await waitFor("the first one's change", async () => (await rows()).length === 1);
  expect(first.failures).toEqual([]);
});
