// What an older term writes is refused, however the write and the take-over meet.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { newTask } from "../../../src/connector/task-state.ts";
import type { OpenDatabase } from "../../../src/state/database.ts";
import { openPgliteDatabase } from "../../../src/state/embedded/pglite-database.ts";
import { latestMigration } from "../../../src/state/migrations.ts";
import { sinkRecordParts, sinkRecords } from "../../../src/state/schema.ts";
import { Cipher } from "../../../src/state/secrets/encryption.ts";
import { openPostgresDatabase } from "../../../src/state/server/postgres-database.ts";
import { ConnectorStore } from "../../../src/state/stores/connector-store.ts";
import { HistoryStore } from "../../../src/state/stores/history-store.ts";
import { LeaseStore, type ReplicaSelf } from "../../../src/state/stores/lease-store.ts";
import { RecordStore } from "../../../src/state/stores/record-store.ts";
import { TaskStore } from "../../../src/state/stores/task-store.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const lost = { code: "lease_lost", message: "Another replica runs this connector now." };
const none = new Map();

function storesOver({ database }: OpenDatabase) {
  const context = { database, patient: database, latestMigration: latestMigration(), outdated: () => {} };
  return {
    connectors: new ConnectorStore(database, new Cipher(Buffer.alloc(32, 7))),
    history: new HistoryStore(database),
    tasks: new TaskStore(database),
    records: new RecordStore(database, sinkRecords, sinkRecordParts),
    leases: new LeaseStore(context),
  };
}

function replica(id: string): ReplicaSelf {
  return {
    id,
    instance: crypto.randomUUID(),
    host: id,
    version: "1.0.0",
    weight: 1,
    leaseMs: 60_000,
    startedAt: new Date(),
  };
}

function task(name: string) {
  const snapshot = { database: "shop", schema: "public", name, truncate: false, force_parallel: false };
  return newTask(Bun.randomUUIDv7(), { Snapshot: snapshot }, Date.now());
}

function record(term: number) {
  return {
    id: Bun.randomUUIDv7(),
    connectorId: "shop",
    runId: Bun.randomUUIDv7(),
    term,
    component: "Source" as const,
    status: { state: { realtime: { name: "\\u0000 'x'" } }, status: { heartbeat: {} } },
    createdAt: new Date(),
  };
}

for (const kind of ["pglite", "postgres"] as const) {
  describe(`fenced writes over ${kind}`, () => {
    let server: PostgresServer | null = null;
    let open: OpenDatabase;
    let directory: string;
    let stores: ReturnType<typeof storesOver>;

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
      if (kind === "postgres") server = await PostgresServer.start({ settings: { fsync: "off" } });
      open = server
        ? await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/postgres`, {
            instance: crypto.randomUUID(),
          })
        : await openPgliteDatabase(directory, () => {});
      stores = storesOver(open);
    });

    afterAll(async () => {
      await open[Symbol.asyncDispose]();
      await server?.[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    });

    /** The connector `shop` is in its second term. */
    beforeEach(async () => {
      const { connectors, leases } = stores;
      await connectors.remove("shop", null);
      await connectors.insert(storedConnector("shop"));
      await open.database.execute(sql`update millrace.leases set term = 0`);
      const self = replica("a");
      await open.database.execute(sql`delete from millrace.replicas`);
      await leases.join(self);
      await leases.take(self, ["shop"]);
      await leases.release(self, new Map([["shop", 1]]));
      await leases.take(self, ["shop"]);
    });

    test("of a connector's state are refused under an older term, and done under the present one", async () => {
      const { connectors } = stores;
      const { runId } = await connectors.get("shop");
      const at = new Date();
      for (const term of [1, 3]) {
        await expect(connectors.markInitialized("shop", runId, term)).rejects.toMatchObject(lost);
        await expect(connectors.beginRound("shop", runId, at, term)).rejects.toMatchObject(lost);
        await expect(connectors.endRound("shop", runId, at, term)).rejects.toMatchObject(lost);
        await expect(connectors.finishCleanup("shop", term)).rejects.toMatchObject(lost);
        await expect(connectors.remove("shop", term)).rejects.toMatchObject(lost);
      }
      expect(await connectors.get("shop")).toMatchObject({ initialized: false, roundBegunAt: null });
      await connectors.beginRound("shop", runId, at, 2);
      await connectors.endRound("shop", runId, at, 2);
      await connectors.markInitialized("shop", runId, 2);
      const marked = connectors.markInitialized("shop", Bun.randomUUIDv7(), 2);
      await expect(marked).rejects.toMatchObject({ code: "state_unavailable" });
      await connectors.update("shop", { cleanup: (await connectors.get("shop")).config });
      expect(await connectors.get("shop")).toMatchObject({ initialized: true, roundEndedAt: at });
      await connectors.finishCleanup("shop", 2);
      expect(await connectors.get("shop")).toMatchObject({
        initialized: false,
        roundBegunAt: null,
        roundEndedAt: null,
        cleanup: null,
      });
      await connectors.remove("shop", 2);
      expect(await connectors.find("shop")).toBeNull();
      await expect(connectors.remove("shop", 2)).rejects.toMatchObject(lost);
    });

    test("for a connector that was deleted are refused by the next one with its id, which is under another term", async () => {
      const { connectors, leases, records, tasks } = stores;
      await connectors.remove("shop", 2);
      await connectors.insert(storedConnector("shop"));
      const self = replica("b");
      await leases.join(self);
      const terms = [...(await leases.take(self, ["shop"])).values()];
      await leases.release(self, new Map([["shop", terms[0]!]]));
      terms.push(...(await leases.take(self, ["shop"])).values());
      expect(terms.some((term) => term <= 2)).toBe(false);
      for (const term of [1, 2]) {
        await expect(records.save("shop", "of the old one", none, term)).rejects.toMatchObject(lost);
        await expect(tasks.releaseRunning("shop", term)).rejects.toMatchObject(lost);
      }
      await records.save("shop", "of the new one", none, terms[1]!);
    });

    test("of tasks are refused under an older term, but for what the API asks", async () => {
      const { tasks } = stores;
      const { id } = await tasks.create("shop", task("orders"));
      const run = (current: Awaited<ReturnType<typeof tasks.create>>) => ({
        ...current,
        state: "Running" as const,
      });
      await expect(tasks.change("shop", id, run, 1)).rejects.toMatchObject(lost);
      expect((await tasks.find("shop", id))?.state).toBe("Pending");
      expect((await tasks.change("shop", id, run, 2))?.state).toBe("Running");
      const progress = { rows: 5, bytes: 50, estimated_rows: 10 };
      await expect(tasks.saveProgress("shop", id, progress, 1)).rejects.toMatchObject(lost);
      await tasks.saveProgress("shop", id, progress, 2);
      await expect(tasks.releaseRunning("shop", 1)).rejects.toMatchObject(lost);
      expect(await tasks.find("shop", id)).toMatchObject({ state: "Running", progress });
      await tasks.releaseRunning("shop", 2);
      expect((await tasks.find("shop", id))?.state).toBe("Pending");
      const cancelled = { ...(await tasks.find("shop", id))!, state: "Cancelled" as const };
      expect((await tasks.change("shop", id, () => cancelled))?.state).toBe("Cancelled");
    });

    test("of the history are dropped under an older term", async () => {
      const { history } = stores;
      const [old, present] = [record(1), record(2)];
      await history.append(old);
      await history.append(present);
      await history.append(present, true);
      const listed = await history.list("shop");
      expect(listed.map(({ id }) => id)).toEqual([present.id]);
      expect(listed[0]?.status).toEqual(present.status);
    });

    test("of records refuse only those of an older term, together with their parts", async () => {
      const { connectors, records } = stores;
      for (const id of ["free", "other"]) {
        await connectors.remove(id, null);
        await connectors.insert(storedConnector(id));
      }
      const parts = (...names: string[]) => new Map(names.map((name) => [name, name]));
      await records.save("shop", "kept", parts("a", "b"), 2);
      const saved = await Promise.allSettled([
        records.save("shop", "late", parts("c"), 1),
        records.save("other", "early", parts("d"), 7),
        records.save("free", "unfenced", parts("e"), null),
        records.save("gone", "lost", none, 1),
      ]);
      expect(saved.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled", "rejected"]);
      expect(saved[0]).toMatchObject({ reason: lost });
      expect(await records.load("shop")).toEqual({ text: "kept", parts: parts("a", "b") });
      expect(await records.load("other")).toBeNull();
      expect(await records.load("free")).toEqual({ text: "unfenced", parts: parts("e") });
      const removal = new Map<string, string | null>([["a", null]]);
      await expect(records.save("shop", "late", removal, 1)).rejects.toMatchObject(lost);
      await records.save("shop", "newer", new Map([...removal, ["b", "changed"]]), 2);
      expect(await records.load("shop")).toEqual({ text: "newer", parts: new Map([["b", "changed"]]) });
      await expect(records.remove("shop", 1)).rejects.toMatchObject(lost);
      expect(await records.load("shop")).not.toBeNull();
      await records.remove("shop", 2);
      expect(await records.load("shop")).toBeNull();
    });

    test("of records keep any text", async () => {
      const { records } = stores;
      const odd = ['"', "\\", '\\"', "{a,b}", "NULL", " ", "a'b", "\n", "é\u{1f600}", "$1", "%s"];
      const parts = new Map(odd.map((name, n) => [name, odd.toReversed()[n]!]));
      for (const text of ["", ...odd, odd.join(",")]) {
        await records.save("shop", text, parts, 2);
        expect(await records.load("shop")).toEqual({ text, parts });
      }
      const removal = new Map<string, string | null>(odd.slice(1).map((name) => [name, null]));
      await records.save("shop", "few", removal.set("empty", ""), 2);
      const kept = new Map([
        ["empty", ""],
        [odd[0]!, odd.at(-1)!],
      ]);
      expect(await records.load("shop")).toEqual({ text: "few", parts: kept });
    });

    test("of records of two terms at once keep the newer one alone", async () => {
      const { records } = stores;
      const many = new Map(Array.from({ length: 12_000 }, (_, n) => [`t${n}`, "old"]));
      const saved = await Promise.allSettled([
        records.save("shop", "old", many, 1),
        records.save("shop", "new", new Map([["t", "new"]]), 2),
        records.save("shop", "older", many, 1),
      ]);
      expect(saved.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected"]);
      expect(await records.load("shop")).toEqual({ text: "new", parts: new Map([["t", "new"]]) });
      await expect(records.save("shop", "old", many, 1)).rejects.toMatchObject(lost);
      await records.save("shop", "large", many, 2);
      expect((await records.load("shop"))?.parts.size).toBe(12_001);
    });
  });
}

describe("a write and a take-over that meet", () => {
  let server: PostgresServer;
  let open: OpenDatabase;
  let stores: ReturnType<typeof storesOver>;
  let other: ReplicaSelf;

  beforeAll(async () => {
    server = await PostgresServer.start({ settings: { fsync: "off" } });
    open = await openPostgresDatabase(`postgres://postgres@127.0.0.1:${server.port}/postgres`, {
      instance: crypto.randomUUID(),
    });
    stores = storesOver(open);
  });

  afterAll(async () => {
    await open[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  /** The lease of `shop`, in its first term, has ended, and `other` may take it. */
  beforeEach(async () => {
    await server.query("delete from millrace.connectors");
    await server.query("delete from millrace.replicas");
    await stores.connectors.insert(storedConnector("shop"));
    await server.query("update millrace.leases set term = 0");
    const self = replica("a");
    other = replica("b");
    await stores.leases.join(self);
    await stores.leases.join(other);
    await stores.leases.take(self, ["shop"]);
    await server.query("update millrace.leases set ends_at = clock_timestamp() - interval '1 s'");
  });

  const somebodyWaits = () =>
    waitFor("somebody waits for a lock", async () => {
      const rows = await server.query("select from pg_locks where not granted");
      return rows.length > 0;
    });

  const writes: Record<string, () => Promise<unknown>> = {
    "a record": () => stores.records.save("shop", "late", new Map([["part", "late"]]), 1),
    "a removal of records": () => stores.records.remove("shop", 1),
    "a round": async () =>
      stores.connectors.beginRound("shop", (await stores.connectors.get("shop")).runId, new Date(), 1),
    "a deletion": () => stores.connectors.remove("shop", 1),
    "a release of tasks": () => stores.tasks.releaseRunning("shop", 1),
    "a cleanup": () => stores.connectors.finishCleanup("shop", 1),
  };

  test.each(Object.keys(writes))("%s that waits for a take-over is refused", async (name) => {
    await using taker = await server.connect();
    await taker.query("begin");
    await taker.query("update millrace.leases set term = term + 1, holder = gen_random_uuid()");
    const written = writes[name]!().then(
      () => "written",
      (error: unknown) => error,
    );
    await somebodyWaits();
    await taker.query("commit");
    expect(await written).toMatchObject(lost);
    expect(await stores.connectors.get("shop")).toMatchObject({ roundBegunAt: null });
    expect(await stores.records.load("shop")).toBeNull();
  });

  test("a record of the history that waits for a take-over is dropped", async () => {
    await using taker = await server.connect();
    await taker.query("begin");
    await taker.query("update millrace.leases set term = term + 1, holder = gen_random_uuid()");
    const appended = stores.history.append(record(1));
    await somebodyWaits();
    await taker.query("commit");
    await appended;
    expect(await stores.history.list("shop")).toEqual([]);
  });

  test.each(["a record", "a round", "a release of tasks"])(
    "nobody takes over until %s is written, which then counts",
    async (name) => {
      // It holds what the write needs after it has locked the lease.
      await using blocker = await server.connect();
      await stores.tasks.create("shop", task("orders"));
      await server.query("update millrace.tasks set state = 'Running'");
      await server.query("insert into millrace.sink_records values ('shop', 'first')");
      await blocker.query("begin");
      await blocker.query("select from millrace.connectors for update");
      await blocker.query("select from millrace.sink_records for update");
      await blocker.query("select from millrace.tasks for update");
      const written = writes[name]!();
      await somebodyWaits();
      expect(await stores.leases.take(other, ["shop"])).toEqual(new Map());
      // As versions do it that know nothing of the lease's key.
      await using earlier = await server.connect();
      const taken = earlier.query("update millrace.leases set term = term + 1, holder = gen_random_uuid()");
      let isTaken = false;
      void taken.then(() => {
        isTaken = true;
      });
      await waitFor("that take-over waits", async () => {
        const rows = await server.query<{ n: number }>(
          "select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock'",
        );
        return rows[0]?.n === 2;
      });
      expect(isTaken).toBe(false);
      await blocker.query("commit");
      await written;
      await taken;
      await expect(writes[name]!()).rejects.toMatchObject(lost);
      expect(await stores.leases.take(other, ["shop"])).toEqual(new Map([["shop", 3]]));
    },
  );

  test("a renewal keeps what is being written, and the write what is being renewed", async () => {
    const names = Array.from({ length: 40 }, (_, n) => `c-${n}`);
    for (const name of names) await stores.connectors.insert(storedConnector(name));
    const terms = await stores.leases.take(other, names);
    let isOver = false;
    const renewing = (async () => {
      let count = 0;
      for (; !isOver; count++) expect((await stores.leases.renew(other, null)).size).toBe(40);
      return count;
    })();
    for (let n = 0; n < 50; n++)
      await Promise.all(
        names.toReversed().map((name) => stores.records.save(name, String(n), none, terms.get(name)!)),
      );
    isOver = true;
    expect(await renewing).toBeGreaterThan(5);
  });
});
