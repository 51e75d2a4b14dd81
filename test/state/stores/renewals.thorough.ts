// A renewal waits for nothing that is written under a lease, and for no more than a moment of a deletion: a replica that waited would lose all
// its leases.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { sql } from "drizzle-orm";
import { type OpenDatabase, rowsOf } from "../../../src/state/database.ts";
import { latestMigration } from "../../../src/state/migrations.ts";
import { Cipher } from "../../../src/state/secrets/encryption.ts";
import { openPostgresDatabase } from "../../../src/state/server/postgres-database.ts";
import { ConnectorStore } from "../../../src/state/stores/connector-store.ts";
import { fenced } from "../../../src/state/stores/fence.ts";
import { LeaseStore, type ReplicaSelf } from "../../../src/state/stores/lease-store.ts";
import { ReceiptStore } from "../../../src/state/stores/receipt-store.ts";
import { RunParking } from "../../../src/state/stores/run-parking.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

/** How long the state may take for an answer here. */
const answerMs = 1_500;
const leaseMs = 800;

let server: PostgresServer;
let open: OpenDatabase;
let connectors: ConnectorStore;
let leases: LeaseStore;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", max_wal_size: "4GB" } });
});
afterAll(() => server[Symbol.asyncDispose]());

beforeEach(async () => {
  await server.query("drop schema if exists millrace cascade");
  open = await openPostgresDatabase(url(), { instance: crypto.randomUUID(), answerMs });
  const { database } = open;
  connectors = new ConnectorStore(database, new Cipher(Buffer.alloc(32, 7)));
  leases = new LeaseStore({
    database: open.shared!.forLeases,
    patient: database,
    latestMigration: latestMigration(),
    outdated: () => {},
  });
});
afterEach(() => open[Symbol.asyncDispose]());

function url(): string {
  return `postgres://postgres@127.0.0.1:${server.port}/postgres`;
}

async function joined(id: string): Promise<ReplicaSelf> {
  const of = { id, instance: crypto.randomUUID(), host: id, version: "1.0.0" };
  const self = { ...of, weight: 1, leaseMs, startedAt: new Date() };
  await leases.join(self);
  return self;
}

/** The replica holds `shop`, the other one `other`. */
async function two() {
  for (const id of ["shop", "other"]) await connectors.insert(storedConnector(id));
  const [a, b] = [await joined("a"), await joined("b")];
  const term = (await leases.take(a, ["shop"])).get("shop")!;
  await leases.take(b, ["other"]);
  return { a, b, term };
}

/** Renews while `work` goes on. Returns the longest time that a renewal has taken. */
async function renewing(self: ReplicaSelf, work: Promise<unknown>): Promise<number> {
  let isOver = false;
  const over = work.finally(() => {
    isOver = true;
  });
  let longestMs = 0;
  while (!isOver) {
    const sentAt = performance.now();
    await leases.renew(self, null);
    longestMs = Math.max(longestMs, performance.now() - sentAt);
    await Bun.sleep(20);
  }
  await over;
  return longestMs;
}

/** So many of each kind that a connector may have much of. The bodies are not compressed. */
async function fill(count: number, bytes: number): Promise<void> {
  const body = `decode(repeat('0f', ${bytes}), 'hex')`;
  await server.query(`insert into millrace.receipts select 'shop', gen_random_uuid(), now() - n * interval '1 s', n, ${body}, '\\x00'
    from generate_series(1, ${count}) n`);
  await server.query("alter table millrace.parked_messages alter column body set storage external");
  await server.query(`insert into millrace.parked_messages (connector_id, id, state, cause, schema_name, table_name, keys, hashes, is_wide,
      rows, bytes, body, min_version, max_version, is_of_copy, committed_at, attempts, parked_at, is_passed)
    select 'shop', gen_random_uuid(), 'parked', 'refused', 'public', 'orders', '[]', '{1}', false, 1, 1, ${body}, n, n, false, now(), '[]', now(), false
    from generate_series(1, ${count}) n`);
  await server.query(`insert into millrace.request_cuts
    select 'shop', gen_random_uuid(), '[]', n, false, now() from generate_series(1, ${count}) n`);
}

const left = async () =>
  (
    await rowsOf<{ n: number }>(
      open.database,
      sql`select ((select count(*) from millrace.receipts) + (select count(*) from millrace.parked_messages)
        + (select count(*) from millrace.request_cuts))::int as n`,
    )
  )[0]?.n;

test("a replica renews while a write under its lease takes longer than that, and so does the one that would take it over", async () => {
  const { a, b, term } = await two();
  const written = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  await using patient = await openPostgresDatabase(url(), { instance: crypto.randomUUID() });
  const writing = fenced(patient.database, { connectorId: "shop", term }, async () => {
    begun.resolve();
    await written.promise;
  });
  await begun.promise;
  expect(await renewing(a, Bun.sleep(2 * leaseMs))).toBeLessThan(leaseMs);
  // The replica stands still, and so does its write.
  await waitFor("the lease to end", async () =>
    (await leases.view(b)).free.some(({ connectorId }) => connectorId === "shop"),
  );
  const taking = (async () => {
    for (let n = 0; n < 10; n++) expect(await leases.take(b, ["shop"])).toEqual(new Map());
  })();
  expect(await renewing(b, taking)).toBeLessThan(leaseMs);
  written.resolve();
  await writing;
  expect(await leases.take(b, ["shop"])).toEqual(new Map([["shop", term + 1]]));
});

test("a replica renews while it deletes a connector of hundreds of megabytes", async () => {
  const { a, term } = await two();
  await fill(2_000, 50_000);
  // The deletion comes to a halt amid the receipts, and goes on after more than a lease.
  await using blocker = await server.connect();
  await blocker.query("begin");
  await blocker.query("select from millrace.receipts order by id desc limit 1 for update");
  const deleted = connectors.remove("shop", term);
  const halt = (async () => {
    await waitFor("the deletion waits", async () => {
      const rows = await server.query("select from pg_locks where not granted");
      return rows.length > 0;
    });
    await Bun.sleep(leaseMs);
    await blocker.query("commit");
  })();
  expect(await renewing(a, Promise.all([deleted, halt]))).toBeLessThan(leaseMs);
  expect(await left()).toBe(0);
  expect(await connectors.find("shop")).toBeNull();
});

test.each(["a deletion", "a new beginning", "a pruning"])(
  "%s gets done that takes longer than an answer of the state may",
  async (what) => {
    const { a, term } = await two();
    await fill(4_000, 10);
    const [table, isTenth] =
      what === "a new beginning"
        ? ["parked_messages", "old.min_version % 10 = 0"]
        : ["receipts", "old.requests % 10 = 0"];
    // Two seconds, and more.
    await server.query(`create function millrace.be_slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.005); return old; end $$;
      create trigger be_slow before delete on millrace.${table} for each row when (${isTenth}) execute function millrace.be_slow()`);
    const receipts = new ReceiptStore(open.database, { saved: async () => {} });
    const works: Record<string, () => Promise<unknown>> = {
      "a deletion": () => connectors.remove("shop", term),
      "a new beginning": async () => {
        await new RunParking(open.database).remove("shop", term);
        await receipts.remove("shop", term);
      },
      "a pruning": () => receipts.answer("shop", { kind: "prune", maxAgeMs: 1, maxBytes: 1 }, term),
    };
    const begunAt = performance.now();
    expect(await renewing(a, works[what]!())).toBeLessThan(leaseMs);
    expect(performance.now() - begunAt).toBeGreaterThan(answerMs);
    expect(await left()).toBe(what === "a pruning" ? 8_000 : 0);
  },
);
