import { expect, test } from "bun:test";
import type { ConnectorConfig } from "../../src/connector/connector.ts";
import type { TableState, TableStatus } from "../../src/connector/table-status.ts";
import type { Task, TaskRequest } from "../../src/connector/task.ts";
import type { VerifiedTable } from "../../src/connector/verification.ts";
import { startVerifySchedule, VerifySchedule } from "../../src/runtime/verify-schedule.ts";
import { sampleConfig } from "../support/api/sample-connector.ts";

const hourMs = 3_600_000;
const table = (name: string, state: TableState = "Streaming"): TableStatus => {
  return { schema: "public", name, state, rows_in: 0, history: false };
};

function stage(
  everyHours: number,
  others: readonly ConnectorConfig[] = [],
  config: ConnectorConfig = sampleConfig("orders"),
) {
  const made: string[] = [];
  const warnings: object[] = [];
  const at = { nowMs: 100 * hourMs };
  const open: Task[] = [];
  const verified: VerifiedTable[] = [];
  const connector: ConnectorConfig = {
    ...config,
    limits: { ...config.limits, verify: { every_hours: everyHours, lanes: 0 } },
  };
  const schedule = new VerifySchedule({
    connectors: async (id) => [...others, connector].filter((each) => id === undefined || each.id === id),
    tables: async (id) => {
      if (id !== connector.id) throw new Error("its tables cannot be read");
      return [table("a"), table("b"), table("c", "Copying")];
    },
    verified: async () => verified,
    unfinished: async () => open,
    create: async (_, request: TaskRequest) => made.push(request.Verify?.name ?? ""),
    log: { warn: (fields: object) => warnings.push(fields) },
    nowMs: () => at.nowMs,
  });
  const isVerified = (name: string, ms: number) =>
    verified.push({
      schema: "public",
      name,
      verified: { at: new Date(ms).toISOString(), as_of_lsn: "0/1", rows: 1, differing: 0 },
    });
  return { schedule, connector, made, warnings, at, open, isVerified };
}

test("each streamed table is compared in its turn, and again when its time has come", async () => {
  const { schedule, made, at, isVerified } = stage(24);
  isVerified("a", 90 * hourMs);
  await schedule.look();
  // A failed comparison is not asked for again at once.
  await schedule.look();
  expect(made).toEqual(["b"]);
  at.nowMs += 15 * hourMs;
  await schedule.look();
  expect(made).toEqual(["b", "a"]);
  at.nowMs += 10 * hourMs;
  await schedule.look();
  expect(made).toEqual(["b", "a", "b"]);
});

test("one at a time, and none where nobody asks for it", async () => {
  const { schedule, made, open } = stage(1);
  open.push({
    id: "1",
    state: "Running",
    spec: { Verify: { database: "d", schema: "s", name: "n", repair: "None" } },
    created_at: "",
    attempt: 0,
  });
  await schedule.look();
  const never = stage(0);
  await never.schedule.look();
  const config = sampleConfig("orders");
  const postgres = { ...config.source.postgres!, replication_type: { snapshot: {} } };
  // Stored before it was refused.
  const rounds = stage(1, [], { ...config, source: { postgres } });
  await rounds.schedule.look();
  expect([...made, ...never.made, ...rounds.made]).toEqual([]);
});

test("a connector whose tables cannot be read keeps no other one from its turn", async () => {
  const { connector } = stage(24);
  const { schedule, made, warnings } = stage(24, [{ ...connector, id: "broken" }]);
  await schedule.look();
  expect(made).toEqual(["a"]);
  expect(warnings).toMatchObject([{ connector: "broken" }]);
});

test("another table is asked for as soon as a comparison has ended, of that connector alone", async () => {
  const { connector } = stage(24);
  const { schedule, made, warnings } = stage(24, [{ ...connector, id: "broken" }]);
  await Promise.all([schedule.look("orders"), schedule.look("orders"), schedule.look("orders")]);
  expect(made.toSorted()).toEqual(["a", "b"]);
  expect(warnings).toEqual([]);
});

test("a disabled connector is not compared, nor one that is stopped or being deleted", async () => {
  const config = sampleConfig("orders");
  const limits = { ...config.limits, verify: { every_hours: 1, lanes: 0 } };
  const stored = (id: string, change: object) => ({
    ...{ id, runId: "run", stopped: false, deletion: null, config: { ...config, id, limits } },
    ...change,
  });
  const all = [
    stored("disabled", { config: { ...config, id: "disabled", limits, disabled: true } }),
    stored("stopped", { stopped: true }),
    stored("deleted", { deletion: "wait" }),
    stored("runs", {}),
  ];
  const made: string[] = [];
  const schedule = startVerifySchedule({
    state: {
      connectors: {
        get: async (id: string) => all.find((each) => each.id === id),
        list: async () => all,
      },
      tasks: { verified: async () => [], list: async () => [] },
    } as never,
    holds: () => true,
    statuses: { tables: async () => [table("a")] },
    tasks: { create: async (id) => made.push(id) as never },
    log: { warn: () => {} } as never,
  });
  for (const { id } of all) await schedule.look(id);
  await schedule[Symbol.asyncDispose]();
  expect(made).toEqual(["runs"]);
});
