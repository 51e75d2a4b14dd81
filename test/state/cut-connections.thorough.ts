// The state's Postgres drops connections during queries, or falls silent: no query waits for ever.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { openState, type State } from "../../src/state/open-state.ts";
import { sinkRecordParts, sinkRecords } from "../../src/state/schema.ts";
import { Cipher } from "../../src/state/secrets/encryption.ts";
import { openPostgresDatabase } from "../../src/state/server/postgres-database.ts";
import { ConnectorStore } from "../../src/state/stores/connector-store.ts";
import { nextTime } from "../../src/state/stores/parked-messages.ts";
import { RecordStore } from "../../src/state/stores/record-store.ts";
import { RunParking } from "../../src/state/stores/run-parking.ts";
import { storedConnector } from "../support/api/sample-connector.ts";
import { LateNetwork } from "../support/servers/late-network.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
let directory: string;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  directory = await mkdtemp(join(tmpdir(), "millrace-cut-"));
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

const cutAll =
  "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millrace state %'";

interface Seen {
  answered: number;
  failed: number;
}

async function begin(state: State, name: string): Promise<void> {
  await state.connectors.insert(storedConnector(name));
  await state.sinkRecords.save(name, "0", new Map(), null);
}

/**
 * Saves and loads one record after the other. A completed save is there; a failed one is there completely or not at
 * all.
 */
async function keep(state: State, name: string, isOver: () => boolean): Promise<Seen> {
  const seen: Seen = { answered: 0, failed: 0 };
  let possible = ["0"];
  for (let n = 1; !isOver(); n++) {
    const text = String(n);
    if (await isAnswered(state.sinkRecords.save(name, text, new Map([["part", text]]), null), seen))
      possible = [text];
    else possible.push(text);
    const found = state.sinkRecords.load(name);
    if (!(await isAnswered(found, seen))) continue;
    const saved = await found;
    expect(possible).toContain(saved?.text ?? "");
    if (saved?.text !== "0") expect(saved?.parts.get("part")).toBe(saved?.text ?? "");
  }
  return seen;
}

async function isAnswered(question: Promise<unknown>, seen: Seen): Promise<boolean> {
  const answer = question.then(
    () => true,
    (error: unknown) => {
      expect(error).toMatchObject({ code: "state_unavailable" });
      return false;
    },
  );
  const outcome = await Promise.race([answer, Bun.sleep(20_000).then(() => null)]);
  if (outcome === null) throw new Error("a question had no answer");
  if (outcome) seen.answered++;
  else seen.failed++;
  return outcome;
}

test("dropped connections fail their queries, and no others", async () => {
  await using state = await openState({
    databaseUrl: `postgres://postgres@127.0.0.1:${server.port}/postgres`,
    dataDirectory: directory,
    encryptionKey: null,
    instance: crypto.randomUUID(),
  });
  let isOver = false;
  const names = Array.from({ length: 6 }, (_, i) => `keeps-${i}`);
  await Promise.all(names.map((name) => begin(state, name)));
  const asking = names.map((name) => keep(state, name, () => isOver));
  await Bun.sleep(300);
  for (let cuts = 0; cuts < 60; cuts++) {
    await server.query(cutAll);
    await Bun.sleep(20);
  }
  isOver = true;
  for (const { answered, failed } of await Promise.all(asking)) {
    expect(answered).toBeGreaterThan(0);
    expect(failed).toBeGreaterThan(0);
  }
  for (let n = 0; n < 10; n++) await state.ping();
});

test("a connection that closes amid a transaction fails it, and not the process", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
  await using open = await openPostgresDatabase(url, { instance: crypto.randomUUID() });
  const seen = new Set<number>();
  for (let n = 0; n < 5; n++) {
    const transaction = open.database.transaction((inside) =>
      inside.execute(sql`select pg_sleep(5)`).execute(),
    );
    transaction.catch(() => {});
    // Not while the session of the one before is being ended.
    await waitFor("the transaction to run", async () => {
      const rows = await server.query<{ pid: number }>(
        "select pid from pg_stat_activity where state = 'active' and query = 'select pg_sleep(5)'",
      );
      return rows.some(({ pid }) => seen.size < seen.add(pid).size);
    });
    proxy.halfClose("client");
    await expect(transaction).rejects.toThrow("CONNECTION_CLOSED");
    // By then the driver has tried to roll back over the connection that is gone.
    await Bun.sleep(10);
  }
  await open.database.execute(sql`select 1`);
});

test("a silent server fails its queries, and answers again when it is reachable", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
  await using open = await openPostgresDatabase(url, { instance: crypto.randomUUID(), answerMs: 500 });
  const { database } = open;
  const ask = () => database.execute(sql`select 1`).execute();
  const transact = () => database.transaction((inside) => inside.execute(sql`select 1`).execute());
  await Promise.all([ask(), ask(), transact(), transact()]);
  proxy.strand();
  const begunAt = performance.now();
  const silent = await Promise.allSettled([ask(), ask(), transact(), transact()]);
  expect(silent.map(({ status }) => status)).toEqual(Array(4).fill("rejected"));
  expect(performance.now() - begunAt).toBeLessThan(10_000);
  await Promise.all([ask(), transact(), ask(), transact(), ask()]);
  expect(open.lost.aborted).toBe(false);
});

test("one silent connection is not waited for longer than leases may wait", async () => {
  await using proxy = await TcpProxy.start(server.port);
  const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
  await using open = await openPostgresDatabase(url, { instance: crypto.randomUUID(), leaseAnswerMs: 500 });
  const ask = () => open.shared!.forLeases.execute(sql`select 1`).execute();
  await ask();
  proxy.strand();
  const begunAt = performance.now();
  await expect(ask()).rejects.toThrow();
  await ask();
  expect(performance.now() - begunAt).toBeLessThan(3_000);
});

describe("a write that was reported as failed never lands after a later one, however late it arrives", () => {
  const afterSecond = async (answerMs: number, lose: (network: LateNetwork) => void) => {
    const id = `late_${answerMs}`;
    await server.createDatabase(id);
    await using network = await LateNetwork.start(server.port);
    await using open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${network.port}/${id}`, {
      instance: crypto.randomUUID(),
      answerMs,
    });
    const connectors = new ConnectorStore(open.database, new Cipher(Buffer.alloc(32, 7)));
    await connectors.insert(storedConnector(id));
    const records = new RecordStore(open.database, sinkRecords, sinkRecordParts);
    // Under a term, so that a session has the statement prepared: one message is enough for it to be executed.
    await open.database.execute(sql`update millrace.leases set term = 1 where connector_id = ${id}`);
    const save = (text: string) => records.save(id, text, new Map([["part", text]]), 1);
    await save("1");
    network.hold();
    const second = save("2").catch((error: unknown) => error);
    await Bun.sleep(100);
    lose(network);
    expect(await second).toMatchObject({ code: "state_unavailable" });
    await waitFor("a later one", () =>
      save("3").then(
        () => true,
        () => false,
      ),
    );
    network.deliver();
    await Bun.sleep(500);
    expect(await records.load(id)).toEqual({ text: "3", parts: new Map([["part", "3"]]) });
  };

  test("when the server is silent", () => afterSecond(500, () => {}));
  test("when the connection is reset", () => afterSecond(60_000, (network) => network.reset()));
});

test("a run waits for what an earlier one is still parking, and no longer than until that has failed", async () => {
  await server.createDatabase("parking");
  await using open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/parking`, {
    instance: crypto.randomUUID(),
    answerMs: 1_000,
  });
  await new ConnectorStore(open.database, new Cipher(Buffer.alloc(32, 7))).insert(storedConnector("held"));
  const parking = new RunParking(open.database);
  const key = crypto.randomUUID();
  const cut = { key, parts: ["0", "1"], maxPlace: 1n, maxVersion: 1, isOfCopy: false };
  const write = () =>
    parking.answer("held", { kind: "cut", cuts: [cut] }, null).catch((error: unknown) => error);
  const cuts = () => parking.answer("held", { kind: "cuts", after: null }, null);
  await using holder = await server.connect("parking");
  const hold = () => holder.query("begin; lock table millrace.request_cuts in share mode");
  await hold();
  const failing = write();
  expect(await cuts()).toEqual({ cuts: [], ofCopies: [], next: null });
  expect(await failing).toMatchObject({ code: "state_unavailable" });
  await holder.query("commit");
  await hold();
  const writing = write();
  const loading = cuts();
  await Bun.sleep(300);
  await holder.query("commit");
  expect(await loading).toEqual({ cuts: [cut], ofCopies: [], next: null });
  expect(await writing).toBeNull();
});

test("a run that notes what became of messages, and somebody who discards them, do not wait for each other", async () => {
  await server.createDatabase("wishes");
  await using open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/wishes`, {
    instance: crypto.randomUUID(),
  });
  const { database } = open;
  await new ConnectorStore(database, new Cipher(Buffer.alloc(32, 7))).insert(storedConnector("wishes"));
  const ids = Array.from({ length: 100 }, () => crypto.randomUUID());
  await database.execute(sql`insert into millrace.parked_messages (connector_id, id, state, cause, schema_name, table_name, keys, hashes,
      is_wide, rows, bytes, min_version, max_version, is_of_copy, committed_at, attempts, parked_at, is_passed)
    select 'wishes', value::uuid, 'parked', 'refused', 'public', 'orders', '[]', '{1}', false, 1, 1, 1, 1, false, now(), '[]', now(), false
    from json_array_elements_text(${JSON.stringify(ids)}::json)`);
  const discard = sql`update millrace.parked_messages set state = 'discarded'`;
  const parking = new RunParking(database);
  const delivering = database.transaction(async (transaction) => {
    await nextTime(transaction, "wishes");
    await transaction.execute(sql`${discard} where id = ${ids[50]}::uuid`);
    const delivered = parking.answer("wishes", { kind: "delivered", ids }, null);
    delivered.catch(() => {});
    await waitFor("the run to wait", async () => {
      const waiting = await server.query("select from pg_locks where not granted");
      return waiting.length > 0;
    });
    await transaction.execute(discard);
    return { delivered };
  });
  expect(await (await delivering).delivered).toBeNull();
});

test("a query waits for a connection as long as others take", async () => {
  await server.createDatabase("locked");
  await using open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/locked`, {
    instance: crypto.randomUUID(),
  });
  await server.query("create table held (i int)", "locked");
  await using holder = await server.connect("locked");
  await holder.query("begin; lock table held");
  const queries = Array.from({ length: 6 }, () => open.database.execute(sql`select from held`).execute());
  // A driver's own pool would give up after its connection timeout.
  await Bun.sleep(11_000);
  await holder.query("commit");
  expect((await Promise.allSettled(queries)).map(({ status }) => status)).toEqual(Array(6).fill("fulfilled"));
});
