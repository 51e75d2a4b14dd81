// Leases over a real server: one holder at a time, terms that grow, all by the server's clock.

import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { type OpenDatabase, rowsOf } from "../../../src/state/database.ts";
import { latestMigration, oldestCompatibleSql } from "../../../src/state/migrations.ts";
import { Cipher } from "../../../src/state/secrets/encryption.ts";
import { openPostgresDatabase } from "../../../src/state/server/postgres-database.ts";
import { ConnectorStore } from "../../../src/state/stores/connector-store.ts";
import { LeaseStore, type ReplicaSelf, termBound } from "../../../src/state/stores/lease-store.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
let open: OpenDatabase;
let store: LeaseStore;
let connectors: ConnectorStore;
const outdated: MillraceError[] = [];

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/postgres`, {
    instance: crypto.randomUUID(),
  });
  store = leaseStore();
  connectors = new ConnectorStore(open.database, new Cipher(Buffer.alloc(32, 7)));
});

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await server.query("delete from millrace.connectors");
  await server.query("delete from millrace.replicas");
});

function leaseStore(latest = latestMigration()): LeaseStore {
  const { database } = open;
  return new LeaseStore({
    database,
    patient: database,
    latestMigration: latest,
    outdated: (error) => outdated.push(error),
  });
}

function replica(id: string, leaseMs = 60_000): ReplicaSelf {
  return {
    id,
    instance: crypto.randomUUID(),
    host: `${id}.local`,
    version: "1.0.0",
    weight: 1,
    leaseMs,
    startedAt: new Date("2026-01-02T03:04:05.678Z"),
  };
}

async function joined(id: string, leaseMs?: number): Promise<ReplicaSelf> {
  const self = replica(id, leaseMs);
  await store.join(self);
  return self;
}

/** Connectors whose terms count from 1. */
async function given(...ids: string[]): Promise<void> {
  for (const id of ids) await connectors.insert(storedConnector(id));
  await server.query("update millrace.leases set term = 0");
}

/** What the server's clock would do in that time. */
async function passed(seconds: number): Promise<void> {
  const earlier = `- interval '${seconds} s'`;
  await server.query(`update millrace.replicas set seen_at = seen_at ${earlier}`);
  await server.query(`update millrace.leases set ends_at = ends_at ${earlier}`);
}

test("each connector has a lease from the moment that it is stored, and none when it is gone", async () => {
  const self = await joined("a");
  await given("one", "two");
  expect((await store.view(self)).free).toMatchObject([
    { connectorId: "one", active: true },
    { connectorId: "two", active: true },
  ]);
  await connectors.remove("one", null);
  expect((await store.view(self)).free.map(({ connectorId }) => connectorId)).toEqual(["two"]);
});

test("of replicas that take at once, each connector gets one, and those that hold keep what they have", async () => {
  const names = Array.from({ length: 50 }, (_, n) => `c-${n}`);
  await given(...names);
  const replicas = await Promise.all(["a", "b", "c"].map((id) => joined(id)));
  const taken = await Promise.all(
    // Each in an order of its own: they must not wait for each other in a circle.
    replicas.map((self, n) => store.take(self, n === 1 ? names.toReversed() : names)),
  );
  const all = taken.flatMap((terms) => [...terms.keys()]);
  expect(all.toSorted()).toEqual(names.toSorted());
  expect(taken.flatMap((terms) => [...terms.values()])).toEqual(names.map(() => 1));
  for (const [n, self] of replicas.entries()) {
    expect(await store.take(self, names)).toEqual(new Map());
    expect(new Map([...(await store.renew(self, null))].toSorted())).toEqual(
      new Map([...(taken[n] ?? [])].toSorted()),
    );
  }
});

test("a lease that has ended is another's to take, under the next term; its last holder does not get it back", async () => {
  await given("shop");
  const [a, b] = [await joined("a"), await joined("b")];
  expect(await store.take(a, ["shop"])).toEqual(new Map([["shop", 1]]));
  expect((await store.view(b)).nextEndMs).toBeWithin(55_000, 60_001);
  expect((await store.view(a)).nextEndMs).toBeNull();
  await passed(61);
  const { free } = await store.view(b);
  expect(free[0]?.freeMs).toBeWithin(1_000, 30_000);
  expect(await store.take(b, ["shop"])).toEqual(new Map([["shop", 2]]));
  expect(await store.renew(a, null)).toEqual(new Map());
  expect(await store.renew(b, null)).toEqual(new Map([["shop", 2]]));
  await store.release(a, new Map([["shop", 1]]));
  expect(await store.renew(b, null)).toEqual(new Map([["shop", 2]]));
  const log = await store.terms("shop");
  expect(log.map(({ term, replicaId }) => [term, replicaId])).toEqual([
    [1, "a"],
    [2, "b"],
  ]);
  expect(Date.now() - Number(log[1]?.takenAt)).toBeWithin(-5_000, 30_000);
});

test("when the server's clock was set back, a dead holder keeps its lease for no longer than that lasts, and a living one keeps it", async () => {
  await given("shop");
  const [a, b] = [await joined("a"), await joined("b")];
  await store.take(a, ["shop"]);
  await passed(-3_600);
  const { nextEndMs, replicas } = await store.view(b);
  expect(nextEndMs).toBeWithin(55_000, 60_001);
  expect(replicas.map(({ isAlive }) => isAlive)).toEqual([true, true]);
  expect(await store.take(b, ["shop"])).toEqual(new Map());
  expect(await store.renew(a, null)).toEqual(new Map([["shop", 1]]));
  await passed(-3_600);
  await store.renew(b, null);
  await store.view(b);
  await passed(61);
  expect((await store.view(b)).replicas.map(({ isAlive }) => isAlive)).toEqual([false, false]);
  expect(await store.take(b, ["shop"])).toEqual(new Map([["shop", 2]]));
});

test("when the server's clock was set back, a dead replica's id is taken over after a lease", async () => {
  await given("shop");
  const first = await joined("a");
  await store.take(first, ["shop"]);
  await passed(-3_600);
  const second = replica("a");
  await expect(store.join(second)).rejects.toMatchObject({ code: "invalid_setting" });
  await passed(61);
  await store.join(second);
});

test("a lease that has ended, and that nobody took, is renewed under its term", async () => {
  await given("shop");
  const a = await joined("a");
  await store.take(a, ["shop"]);
  await passed(61);
  expect(await store.renew(a, null)).toEqual(new Map([["shop", 1]]));
  const b = await joined("b");
  expect(await store.take(b, ["shop"])).toEqual(new Map());
});

test("what is given back is free at once, and only what was held under the named term", async () => {
  await given("one", "two", "three");
  const self = await joined("a");
  await store.take(self, ["one", "two", "three"]);
  await store.release(self, new Map([...(["one", "two"] as const).map((id, n) => [id, n + 1] as const)]));
  expect((await store.view(self)).free.map(({ connectorId }) => connectorId)).toEqual(["one"]);
  expect(await store.take(self, ["one"])).toEqual(new Map([["one", 2]]));
  await store.leave(self);
  const view = await store.view(self);
  expect(view.replicas).toEqual([]);
  expect(view.free).toHaveLength(3);
  expect(await store.take(self, ["one"])).toEqual(new Map());
});

test("the view counts what each replica holds, and of that what is to run", async () => {
  await given("one", "two", "three");
  const [a, b] = [await joined("a"), await joined("b")];
  await store.take(a, ["one", "two"]);
  await store.setActive("one", 1, false);
  await store.setActive("two", 7, false);
  await store.renew(a, "the disk is nearly full");
  const { replicas } = await store.view(b);
  const { leaseMs: _, ...shown } = a;
  expect(replicas).toMatchObject([
    { ...shown, isAlive: true, held: 2, active: 1, trouble: "the disk is nearly full" },
    { id: "b", isAlive: true, held: 0, active: 0, trouble: null },
  ]);
  expect(Date.now() - Number(replicas[0]?.seenAt)).toBeWithin(-5_000, 30_000);
  await passed(61);
  expect((await store.view(b)).replicas.map(({ isAlive, held }) => [isAlive, held])).toEqual([
    [false, 0],
    [false, 0],
  ]);
});

test("a live replica's id is refused to another instance, a dead one's is taken over with all that it held", async () => {
  await given("shop");
  const first = await joined("a");
  await store.take(first, ["shop"]);
  await store.join(first);
  const second = replica("a");
  await expect(store.join(second)).rejects.toMatchObject({ code: "invalid_setting" });
  await server.query("update millrace.replicas set seen_at = seen_at - interval '61 s'");
  // It took a connector after it was seen: that lease is in force.
  await expect(store.join(second)).rejects.toMatchObject({ code: "invalid_setting" });
  await passed(61);
  const races = [store.join(second), store.join(replica("a"))];
  const won = (await Promise.allSettled(races)).filter(({ status }) => status === "fulfilled");
  expect(won).toHaveLength(1);
  await expect(store.renew(first, null)).rejects.toMatchObject({ code: "invalid_setting" });
  expect(await store.take(first, ["shop"])).toEqual(new Map());
  expect((await store.view(second)).free).toMatchObject([{ connectorId: "shop" }]);
});

test("a replica that was not seen for long is forgotten by exactly one of two, and comes back when it wakes", async () => {
  const [a, b] = [await joined("a", 2_000), await joined("b", 2_000)];
  await passed(50);
  expect(await store.forgetLost()).toEqual([]);
  await store.renew(b, null);
  await passed(11);
  const lost = (await Promise.all([store.forgetLost(), store.forgetLost()])).flat();
  expect(lost.map(({ id, instance, isAlive }) => [id, instance, isAlive])).toEqual([
    ["a", a.instance, false],
  ]);
  expect(await store.renew(a, null)).toEqual(new Map());
  expect((await store.view(b)).replicas.map(({ id }) => id)).toEqual(["a", "b"]);
});

test("keeps the newest terms of a connector", async () => {
  await given("shop");
  const self = await joined("a");
  for (let n = 1; n <= termBound + 5; n++) {
    expect(await store.take(self, ["shop"])).toEqual(new Map([["shop", n]]));
    await store.release(self, new Map([["shop", n]]));
  }
  const log = await store.terms("shop");
  expect(log).toHaveLength(termBound);
  expect(log[0]?.term).toBe(6);
});

test("a build that knows too little of the tables learns it when it renews", async () => {
  const self = await joined("a");
  await store.renew(self, null);
  const [oldest] = await rowsOf<{ value: string }>(open.database, oldestCompatibleSql);
  const earlier = leaseStore(Number(oldest?.value) - 1);
  await expect(earlier.renew(self, null)).rejects.toThrow("later version");
  expect(outdated).toHaveLength(1);
});

test("a connector that is made again under its id has none of the terms that it had before", async () => {
  const self = await joined("a");
  let last = 0;
  for (let life = 0; life < 3; life++) {
    await connectors.insert(storedConnector("shop"));
    const first = (await store.take(self, ["shop"])).get("shop") ?? 0;
    expect(first).toBeGreaterThan(last);
    await store.release(self, new Map([["shop", first]]));
    last = (await store.take(self, ["shop"])).get("shop") ?? 0;
    expect(last).toBe(first + 1);
    await connectors.remove("shop", last);
  }
  expect(Number.isSafeInteger(last)).toBe(true);
});

test("a take-over leaves alone what somebody else has locked, and takes the rest", async () => {
  await given("one", "two");
  const [a, b] = [await joined("a"), await joined("b")];
  await store.take(a, ["one", "two"]);
  await passed(61);
  await using holder = await server.connect();
  await holder.query("begin");
  await holder.query(
    "update millrace.leases set ends_at = clock_timestamp() + interval '60 s' where connector_id = 'one'",
  );
  expect(await store.take(b, ["one", "two"])).toEqual(new Map([["two", 2]]));
  await holder.query("commit");
  expect(await store.take(b, ["one", "two"])).toEqual(new Map());
  await passed(61);
  expect(await store.take(b, ["one"])).toEqual(new Map([["one", 2]]));
});

test("a thousand connectors are taken and renewed at once", async () => {
  const names = Array.from({ length: 1_000 }, (_, n) => `c-${n}`);
  await server.query(
    `insert into millrace.connectors (id, slot_name, sealed_config, stopped, initialized, run_id, created_at)
     select 'c-' || n, 's-' || n, '', false, false, gen_random_uuid(), now() from generate_series(0, 999) n`,
  );
  const self = await joined("a");
  const begunAt = performance.now();
  expect((await store.take(self, names)).size).toBe(1_000);
  const takenAt = performance.now();
  for (let n = 0; n < 20; n++) expect((await store.renew(self, null)).size).toBe(1_000);
  const renewedAt = performance.now();
  const { replicas } = await store.view(self);
  expect(replicas[0]).toMatchObject({ held: 1_000, active: 1_000 });
  for (let n = 0; n < 4; n++) await store.view(self);
  const viewedAt = performance.now();
  await store.leave(self);
  const leftAt = performance.now();
  console.log(
    `take ${(takenAt - begunAt).toFixed(0)} ms, renew ${((renewedAt - takenAt) / 20).toFixed(1)} ms, ` +
      `view ${((viewedAt - renewedAt) / 5).toFixed(1)} ms, leave ${(leftAt - viewedAt).toFixed(1)} ms`,
  );
  expect(leftAt - begunAt).toBeLessThan(10_000);
});
