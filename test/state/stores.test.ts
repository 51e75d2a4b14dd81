// The stores over both databases: what is stored is returned, in the promised order and within the promised limits.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ConnectorRequest } from "../../src/connector/connector.ts";
import type { Task } from "../../src/connector/task.ts";
import {
  cancelTask,
  claimTask,
  failTask,
  finishTask,
  newTask,
  retryTask,
} from "../../src/connector/task-state.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import type { State } from "../../src/state/open-state.ts";
import { historyBound } from "../../src/state/stores/history-store.ts";
import { taskListBound } from "../../src/state/stores/task-store.ts";
import { plantedSecret, storedConnector } from "../support/api/sample-connector.ts";
import { databaseKinds, StateOver } from "../support/runtime/state-over.ts";

function task(name: string): Task {
  const snapshot = { database: "shop", schema: "public", name, truncate: false, force_parallel: false };
  return newTask(Bun.randomUUIDv7(), { Snapshot: snapshot }, Date.parse("2026-01-02T03:04:05.678Z"));
}

for (const kind of databaseKinds) {
  describe(`the stores over ${kind}`, () => {
    let over: StateOver;
    let state: State;
    /** Of another replica, where there can be one. */
    let other: State;

    beforeAll(async () => {
      over = await StateOver.start(kind);
      ({ state } = over);
      other = (await over.openAnother?.()) ?? state;
    });
    afterAll(() => over[Symbol.asyncDispose]());

    test("answers a ping", async () => {
      await state.ping();
    });

    test("returns a connector as it was stored, secrets included", async () => {
      const connector = storedConnector("one");
      await state.connectors.insert(connector);
      expect(await state.connectors.find("one")).toEqual(connector);
      const change = {
        stopped: true,
        initialized: true,
        cleanup: connector.config,
        deletion: "wait",
      } as const;
      await state.connectors.update("one", change);
      expect(await state.connectors.find("one")).toEqual({ ...connector, ...change });
      await state.connectors.update("one", { cleanup: null });
      expect((await state.connectors.find("one"))?.cleanup).toBeNull();
      expect(await state.connectors.find("two")).toBeNull();
    });

    test("refuses a second connector with another's id or slot name", async () => {
      await state.connectors.insert(storedConnector("slot-a"));
      for (const id of ["slot-a", "SLOT_A"]) {
        const error = await state.connectors.insert(storedConnector(id)).catch((reason: unknown) => reason);
        expect(error).toMatchObject({ code: "conflict" });
        expect(String(error)).not.toContain(plantedSecret);
      }
    });

    test("keeps the first of two pending cleanups, whoever knew of it", async () => {
      const connector = storedConnector("moved");
      const at = (name: string) => ({ ...connector.config, name });
      await state.connectors.insert(connector);
      await state.connectors.update("moved", { cleanup: at("first") });
      await state.connectors.update("moved", { cleanup: at("second") });
      expect((await state.connectors.find("moved"))?.cleanup?.name).toBe("first");
      await state.connectors.update("moved", { cleanup: null });
      await state.connectors.update("moved", { cleanup: at("third") });
      expect((await state.connectors.find("moved"))?.cleanup?.name).toBe("third");
    });

    test("changes a connector by what is stored, one change after the other, whoever makes them", async () => {
      await state.connectors.insert(storedConnector("counted"));
      const { config } = await state.connectors.get("counted");
      const count = ({ given }: { given: ConnectorRequest }) => Number(given.name ?? 0);
      const changes = Array.from({ length: 30 }, (_, n) =>
        [state, other][n % 2]!.connectors.change("counted", (stored) => ({
          given: { ...stored.given, name: String(count(stored) + 1) },
          cleanup: { ...config, name: String(n) },
        })),
      );
      const seen = (await Promise.all(changes)).map((stored) => count(stored!));
      expect(seen.toSorted((a, b) => a - b)).toEqual(changes.map((_, n) => n + 1));
      const last = await state.connectors.get("counted");
      expect(count(last)).toBe(30);
      // The first cleanup stays.
      expect(last.cleanup?.name).toBe(String(seen.indexOf(1)));
      expect(await state.connectors.change("counted", () => null)).toEqual(last);
      const refused = state.connectors.change("counted", () => {
        throw new MillraceError("conflict", "no");
      });
      await expect(refused).rejects.toMatchObject({ code: "conflict" });
      expect(await state.connectors.get("counted")).toEqual(last);
      expect(await state.connectors.change("nobody", () => ({ stopped: true }))).toBeNull();
    });

    test("lets only the current run report that it is initialized", async () => {
      const connector = storedConnector("begun");
      await state.connectors.insert(connector);
      await state.connectors.update("begun", { runId: Bun.randomUUIDv7() });
      const late = state.connectors.markInitialized("begun", connector.runId, null);
      await expect(late).rejects.toMatchObject({ code: "state_unavailable" });
      expect((await state.connectors.find("begun"))?.initialized).toBe(false);
      const { runId } = await state.connectors.get("begun");
      await state.connectors.markInitialized("begun", runId, null);
      expect((await state.connectors.find("begun"))?.initialized).toBe(true);
    });

    test("lists connectors oldest first", async () => {
      const early = { ...storedConnector("early"), createdAt: new Date("2020-01-01T00:00:00Z") };
      await state.connectors.insert(early);
      expect((await state.connectors.list())[0]?.id).toBe("early");
    });

    test("keeps the newest records of the history, oldest first", async () => {
      await state.connectors.insert(storedConnector("told"));
      const count = historyBound + 150;
      for (let index = 0; index < count; index++) {
        const status = { state: { realtime: { name: String(index) } }, status: { heartbeat: {} } };
        const record = {
          connectorId: "told",
          runId: Bun.randomUUIDv7(),
          component: "Source" as const,
          term: null,
        };
        await state.history.append({
          ...record,
          id: Bun.randomUUIDv7(),
          status,
          createdAt: new Date(count - index),
        });
      }
      const names = (await state.history.list("told")).map((entry) => entry.status.state.realtime?.name);
      expect(names).toHaveLength(historyBound);
      expect(names[0]).toBe(String(count - historyBound));
      expect(names.at(-1)).toBe(String(count - 1));
    });

    test("drops a history record of a deleted connector", async () => {
      const status = { state: { start: {} }, status: { start: {} } };
      const record = {
        connectorId: "nobody",
        runId: Bun.randomUUIDv7(),
        component: "Source" as const,
        term: null,
      };
      await state.history.append({ ...record, id: Bun.randomUUIDv7(), status, createdAt: new Date() });
      expect(await state.history.list("nobody")).toEqual([]);
    });

    test.each([
      ["a zero byte", "\u0000"],
      ["half of a pair", "\ud83d"],
    ])("refuses a history record with %s as a fault of the record", async (_, reason) => {
      const status = { state: { realtime: { name: "rows" } }, status: { failed: { reason } } };
      const appended = state.history.append({
        id: Bun.randomUUIDv7(),
        connectorId: "one",
        runId: Bun.randomUUIDv7(),
        component: "Target",
        status,
        createdAt: new Date(),
        term: null,
      });
      await expect(appended).rejects.toMatchObject({ code: "internal" });
    });

    test("stores a history record once, however often it is written", async () => {
      await state.connectors.insert(storedConnector("once"));
      const id = Bun.randomUUIDv7();
      const status = { state: { start: {} }, status: { start: {} } };
      const record = {
        id,
        connectorId: "once",
        runId: Bun.randomUUIDv7(),
        component: "Source" as const,
        term: null,
      };
      for (const isRepeated of [false, true])
        await state.history.append({ ...record, status, createdAt: new Date() }, isRepeated);
      expect((await state.history.list("once")).map((entry) => entry.id)).toEqual([id]);
    });

    test("has one task for fifty concurrent identical requests, and another once it is done", async () => {
      await state.connectors.insert(storedConnector("racing"));
      const requests = Array.from({ length: 50 }, () => state.tasks.create("racing", task("orders")));
      const ids = new Set((await Promise.all(requests)).map((created) => created.id));
      expect(ids.size).toBe(1);
      const [id = ""] = ids;
      await state.tasks.change("racing", id, claimTask);
      expect((await state.tasks.create("racing", task("orders"))).id).toBe(id);
      await state.tasks.change("racing", id, finishTask);
      expect((await state.tasks.create("racing", task("orders"))).id).not.toBe(id);
    });

    test("gives a retried failed task no place next to an identical one", async () => {
      await state.connectors.insert(storedConnector("twins"));
      const { id } = await state.tasks.create("twins", task("orders"));
      const failure = { reason: "no", retryable: false, nowMs: 0, random: 0 };
      await state.tasks.change("twins", id, (failed) => failTask(claimTask(failed), failure));
      const other = await state.tasks.create("twins", task("orders"));
      const retried = state.tasks.change("twins", id, retryTask);
      await expect(retried).rejects.toMatchObject({ code: "conflict" });
      const cancelled = await state.tasks.change("twins", other.id, cancelTask);
      expect(cancelled).not.toHaveProperty("progress");
      expect(await state.tasks.find("twins", other.id)).toEqual(cancelled);
      expect((await state.tasks.change("twins", id, retryTask))?.state).toBe("Pending");
    });

    test("has no task of a deleted connector", async () => {
      const created = state.tasks.create("nobody", task("t"));
      await expect(created).rejects.toMatchObject({ code: "connector_not_found" });
    });

    test("lets exactly one of many claims of a task win", async () => {
      await state.connectors.insert(storedConnector("claims"));
      const { id } = await state.tasks.create("claims", task("orders"));
      const claims = Array.from({ length: 20 }, () => state.tasks.change("claims", id, claimTask));
      const won = (await Promise.allSettled(claims)).filter((result) => result.status === "fulfilled");
      expect(won).toHaveLength(1);
    });

    test("lists the newest hundred tasks, newest first, and the pending ones oldest first", async () => {
      await state.connectors.insert(storedConnector("busy"));
      for (let index = 0; index < taskListBound + 5; index++) {
        await state.tasks.create("busy", task(`table_${index}`));
      }
      const listed = await state.tasks.list("busy");
      expect(listed).toHaveLength(taskListBound);
      expect(listed[0]?.spec.Snapshot?.name).toBe(`table_${taskListBound + 4}`);
      expect((await state.tasks.pending("busy", Date.now()))[0]?.spec.Snapshot?.name).toBe("table_0");
    });

    test("returns running tasks to pending", async () => {
      await state.connectors.insert(storedConnector("cut"));
      const { id } = await state.tasks.create("cut", task("orders"));
      await state.tasks.change("cut", id, claimTask);
      await state.tasks.saveProgress("cut", id, { rows: 5, bytes: 50, estimated_rows: 10 }, null);
      await state.tasks.releaseAllRunning();
      const recovered = await state.tasks.find("cut", id);
      expect(recovered).toMatchObject({
        state: "Pending",
        progress: { rows: 5, bytes: 50, estimated_rows: 10 },
      });
      expect(await state.tasks.find("cut", "not-a-uuid' or true --")).toBeNull();
    });

    // The embedded one would take long to store them.
    if (kind === "postgres") {
      test("finds one of thirty thousand tasks as fast as a lone one", async () => {
        const findMs = async (connectorId: string) => {
          const { id } = await state.tasks.create(connectorId, task("orders"));
          const began = over.usedMs();
          for (let times = 0; times < 200; times++)
            expect((await state.tasks.find(connectorId, id))?.id).toBe(id);
          return over.usedMs() - began;
        };
        for (const id of ["lone", "long"]) await state.connectors.insert(storedConnector(id));
        await over.query?.(
          `insert into millrace.tasks (id, connector_id, state, spec, spec_key, attempt, rows, bytes, estimated_rows, created_at)
           select gen_random_uuid(), 'long', 'Done', '{}', i, 0, 0, 0, 0, now() from generate_series(1, 30000) i`,
        );
        const lone = await findMs("lone");
        expect(await findMs("long")).toBeLessThan(4 * lone);
      });
    }

    test("keeps the last of many concurrent saves of a sink record", async () => {
      await state.connectors.insert(storedConnector("sunk-a"));
      await state.connectors.insert(storedConnector("sunk-b"));
      expect(await state.sinkRecords.load("sunk-a")).toBeNull();
      const saves = Array.from({ length: 200 }, (_, index) =>
        state.sinkRecords.save(index % 2 === 0 ? "sunk-a" : "sunk-b", `record ${index}`, new Map(), null),
      );
      await Promise.all(saves);
      expect((await state.sinkRecords.load("sunk-a"))?.text).toBe("record 198");
      expect((await state.sinkRecords.load("sunk-b"))?.text).toBe("record 199");
    });

    test("finds the record whose save is in progress, and deletes it for good", async () => {
      await state.connectors.insert(storedConnector("cut-off"));
      for (let round = 0; round < 20; round++) {
        const saving = state.sinkRecords.save("cut-off", `record ${round}`, new Map(), null);
        expect((await state.sinkRecords.load("cut-off"))?.text).toBe(`record ${round}`);
        const late = state.sinkRecords.save("cut-off", "late", new Map(), null);
        await state.sinkRecords.remove("cut-off", null);
        await Promise.all([saving, late]);
        expect(await state.sinkRecords.load("cut-off")).toBeNull();
      }
    });

    test("changes parts of a sink's record with its text, and writes only the named ones", async () => {
      await state.connectors.insert(storedConnector("parted"));
      const { sinkRecords } = state;
      const save = (text: string, parts: Record<string, string | null>) =>
        sinkRecords.save("parted", text, new Map(Object.entries(parts)), null);
      // More than fit into one statement.
      const entries = Array.from({ length: 12_000 }, (_, n) => [`t${n}`, `part ${n}`] as const);
      await save("many", Object.fromEntries(entries));
      await Promise.all([save("a", { t0: "other", t1: "late" }), save("b", { t1: null, new: "new" })]);
      const kept = new Map<string, string>(entries).set("t0", "other").set("new", "new");
      kept.delete("t1");
      expect(await sinkRecords.load("parted")).toEqual({ text: "b", parts: kept });
      const gone = sinkRecords.save("gone", "lost", new Map([["t", "lost"]]), null);
      const [lost, made] = await Promise.allSettled([gone, save("c", { t0: null })]);
      expect([lost.status, made.status]).toEqual(["rejected", "fulfilled"]);
      kept.delete("t0");
      expect(await sinkRecords.load("parted")).toEqual({ text: "c", parts: kept });
      await sinkRecords.remove("parted", null);
      await sinkRecords.save("parted", "anew", new Map(), null);
      expect(await sinkRecords.load("parted")).toEqual({ text: "anew", parts: new Map() });
    });

    test("fails the save of a deleted connector, and no other", async () => {
      await state.connectors.insert(storedConnector("stays"));
      const [gone, stays] = await Promise.allSettled([
        state.sinkRecords.save("gone", "lost", new Map(), null),
        state.sinkRecords.save("stays", "kept", new Map(), null),
      ]);
      expect(gone.status).toBe("rejected");
      expect(stays.status).toBe("fulfilled");
      expect((await state.sinkRecords.load("stays"))?.text).toBe("kept");
    });

    test("deletes a connector with everything that belongs to it", async () => {
      await state.connectors.insert(storedConnector("leaving"));
      await state.tasks.create("leaving", task("orders"));
      await state.sinkRecords.save("leaving", "record", new Map(), null);
      await state.connectors.remove("leaving", null);
      expect(await state.connectors.find("leaving")).toBeNull();
      expect(await state.tasks.list("leaving")).toEqual([]);
      expect(await state.sinkRecords.load("leaving")).toBeNull();
    });
  });
}
