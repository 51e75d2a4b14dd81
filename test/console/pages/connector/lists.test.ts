// The lists of the page: tables, tasks, runs, findings.

import { describe, expect, test } from "bun:test";
import { conditionOf } from "../../../../console/connector/condition.ts";
import { commandsText, summaryOf, worstFirst } from "../../../../console/pages/connector/doctor/findings.ts";
import { attemptsText, runsOf, stepsOf } from "../../../../console/pages/connector/history/runs.ts";
import {
  countByStand,
  matchingTables,
  needsSomebody,
  ordered,
  refusedTables,
  standTone,
  tableAction,
  tableKey,
  tableStand,
} from "../../../../console/pages/connector/tables/table-order.ts";
import {
  taskActions,
  taskNote,
  taskTone,
  withTask,
} from "../../../../console/pages/connector/tasks/task-words.ts";
import type { Diagnosis } from "../../../../src/connector/service/diagnosis.ts";
import type { HistoryEntry } from "../../../../src/connector/status.ts";
import type { TableState, TableStatus } from "../../../../src/connector/table-status.ts";
import type { Task } from "../../../../src/connector/task.ts";
import { given } from "./given.ts";

const table = (name: string, state: TableState, schema = "public"): TableStatus => ({
  schema,
  name,
  state,
  rows_in: 0,
  history: false,
});

describe("tables", () => {
  const tables = [
    table("a", "Streaming"),
    table("b", "SetAside"),
    table("c", "Copying"),
    table("d", "SetAside"),
  ];

  test("that need somebody come first", () => {
    expect(ordered(tables).map(({ name }) => name)).toEqual(["b", "d", "c", "a"]);
  });

  test("are found by parts of their names, and by state", () => {
    const odd = table('<b> "x"', "Streaming", "Shop");
    expect(matchingTables([...tables, odd], { text: "SHOP <b>", stand: null })).toEqual([odd]);
    expect(matchingTables(tables, { text: "", stand: "Copying" }).map(({ name }) => name)).toEqual(["c"]);
    expect(countByStand(tables).get("SetAside")).toBe(2);
  });

  test("that the sink refuses need somebody, and come before all that wait for them", () => {
    const refused = { ...table("z", "Waiting"), reason: "It has no key.", commands: ["ALTER TABLE z …"] };
    const all = [table("a", "Waiting"), ...tables, refused];
    expect(ordered(all)[0]).toBe(refused);
    expect(refusedTables(all)).toEqual([refused]);
    expect([needsSomebody(refused), needsSomebody(table("a", "Waiting"))]).toEqual([true, false]);
    expect(standTone(tableStand(refused))).toBe("bad");
    expect(countByStand(all).get("Refused")).toBe(1);
  });

  test("that are copied again after they were set aside need nobody, and have no action", () => {
    const again = { ...table("b", "SetAside"), reason: "It goes on.", copied_again: true };
    expect([tableStand(again), needsSomebody(again), tableAction(again, true)]).toEqual([
      "Waiting",
      false,
      null,
    ]);
    const { status } = given();
    const word = (isCopiedAgain: boolean) => {
      const aside = { schema: "public", name: "b", reason: "why", commands: [] };
      const tables_set_aside = [isCopiedAgain ? { ...aside, copied_again: true } : aside];
      return conditionOf({ status: { ...status, tables_set_aside }, isBehind: false }).word;
    };
    expect([word(false), word(true)]).toEqual(["Needs you", "Streaming"]);
  });

  test("have one action, whose word fits their state", () => {
    const word = (state: TableState, reason?: string, mayWrite = true) =>
      tableAction({ ...table("t", state), ...(reason && { reason }) }, mayWrite)?.word ?? null;
    expect([word("Streaming"), word("Waiting"), word("Copying")]).toEqual(["Copy again", "Copy now", null]);
    for (const state of ["Waiting", "SetAside", "Unreadable"] as const)
      expect(word(state, "why", false)).toBe("What to do");
    expect([word("Excluded", "why"), word("Excluded")]).toEqual(["Why?", null]);
    expect(word("Streaming", undefined, false)).toBeNull();
  });

  test("whose names have dots are different tables", () => {
    expect(tableKey({ schema: "a.b", name: "c" })).not.toBe(tableKey({ schema: "a", name: "b.c" }));
  });
});

describe("tasks", () => {
  const spec = {
    Snapshot: { database: "d", schema: "s", name: "t", truncate: false, force_parallel: false },
  };
  const task = (id: string, more: Partial<Task> = {}): Task => ({
    id,
    state: "Pending" as const,
    spec,
    created_at: "2026-01-01T00:00:00Z",
    attempt: 0,
    ...more,
  });
  const now = Date.parse("2026-01-01T00:00:00Z");
  const { status } = given();

  test("stay newest first as events come", () => {
    const known = [task("3"), task("1")];
    expect(withTask(known, task("2")).map(({ id }) => id)).toEqual(["3", "2", "1"]);
    expect(withTask(known, task("4")).map(({ id }) => id)).toEqual(["4", "3", "1"]);
    expect(withTask(known, task("0")).map(({ id }) => id)).toEqual(["3", "1", "0"]);
    expect(withTask(known, task("1", { state: "Done" })).map(({ state }) => state)).toEqual([
      "Pending",
      "Done",
    ]);
  });

  test("say what they wait for", () => {
    expect(taskNote(task("1"), status, now)).toBe("waits for its turn");
    const stopped = { state: { shutdown: {} }, status: { complete: {} } };
    expect(taskNote(task("1"), stopped, now)).toBe("waits until the connector runs");
    const failing = task("1", { attempt: 2, next_attempt_at: "2026-01-01T00:00:30Z", reason: "Why." });
    expect(taskNote(failing, status, now)).toBe("2\u202fattempts failed, next attempt in 30\u202fs");
    expect(taskTone(failing)).toBe("warning");
  });

  test("can be cancelled while they wait, and tried again when they failed", () => {
    const actions = (more: Partial<Task>) => taskActions(task("1", more)).map(({ action }) => action);
    expect(actions({})).toEqual(["cancel"]);
    expect(actions({ next_attempt_at: "2026-01-01T00:00:30Z" })).toEqual(["retry", "cancel"]);
    expect(actions({ state: "Failed" })).toEqual(["retry"]);
    expect(actions({ state: "Running" })).toEqual([]);
    const Verify = { database: "shop", schema: "public", name: "t", repair: "None" as const };
    expect(actions({ state: "Running", spec: { Verify } })).toEqual(["cancel"]);
  });
});

test("the history is told by runs, newest first; what comes late stands with its run", () => {
  const first = "019af9a0-0000-7000-8000-000000000000";
  const second = "019af9a1-0000-7000-8000-000000000000";
  const entry = (id: string, run_id: string, status: HistoryEntry["status"]): HistoryEntry => ({
    id,
    run_id,
    status,
    connector_id: "orders",
    component: "Source",
    created_at: "2026-01-01T00:00:00Z",
  });
  const runs = runsOf([
    entry("1", first, { state: { start: {} }, status: { start: {} } }),
    entry("2", second, { state: { realtime: { name: "s" } }, status: { heartbeat: {} } }),
    entry("3", first, { state: { shutdown: {} }, status: { complete: {} } }),
  ]);
  expect(runs.map(({ id }) => id)).toEqual([second, first]);
  expect(runs[1]?.entries.map(({ id }) => id)).toEqual(["3", "1"]);
  expect(runs.map(({ word }) => word)).toEqual(["Goes on", "Stopped"]);
  expect(runs[0]?.beganAt).toBe(0x019af9a10000);
});

test("copies that follow each other are one step of the history, but not those with something to say", () => {
  const copy = (id: string, status: HistoryEntry["status"]["status"] = { heartbeat: {} }): HistoryEntry => ({
    id,
    connector_id: "orders",
    run_id: "r",
    component: "Source",
    created_at: "2026-01-01T00:00:00Z",
    status: { state: { snapshot: { name: `public.${id}` } }, status },
  });
  const kinds = (entries: HistoryEntry[]) =>
    stepsOf(entries).map((step) => (step.kind === "entry" ? step.entry.id : step.entries.length));
  expect(kinds(["1", "2", "3", "4"].map((id) => copy(id)))).toEqual([4]);
  expect(kinds(["1", "2"].map((id) => copy(id)))).toEqual(["1", "2"]);
  const retry = copy("x", { retry: { attempt: 1, reason: "Why." } });
  expect(kinds([...["1", "2", "3", "4"].map((id) => copy(id)), retry, copy("5")])).toEqual([4, "x", "5"]);
});

test("the same failure, met again and again, is one step of the history", () => {
  const retry = (id: string, attempt: number, reason: string, sub_state = "connect"): HistoryEntry => ({
    id,
    connector_id: "orders",
    run_id: "r",
    component: "Connector",
    created_at: "2026-01-01T00:00:00Z",
    status: { state: { initialize: { sub_state, commands: [] } }, status: { retry: { attempt, reason } } },
  });
  const away = [
    retry("6", 3, "Away."),
    retry("5", 2, "Away.", "make the slot"),
    retry("4", 2, "Away."),
    retry("3", 1, "Away."),
  ];
  const steps = stepsOf([...away, retry("2", 2, "Refused."), retry("1", 1, "Away.")]);
  expect(
    steps.map((step) => (step.kind === "entry" ? step.entry.id : [step.kind, step.entries.length])),
  ).toEqual([["retries", 4], "2", "1"]);
  expect([attemptsText(away), attemptsText(away.slice(0, 1))]).toEqual(["attempts 1 to 3", "attempt 3"]);
});

test("the doctor's worst findings come first", () => {
  const finding = (severity: Diagnosis["severity"]): Diagnosis => ({
    connector: "orders",
    about: "sink",
    severity,
    finding: severity,
    commands: [],
  });
  const findings = [finding("ok"), finding("warning"), finding("failed")];
  expect(worstFirst(findings).map(({ severity }) => severity)).toEqual(["failed", "warning", "ok"]);
  expect(summaryOf(findings)).toBe("2 of 3 findings need a look.");
  expect(summaryOf([finding("ok")])).toBe("1\u202fcheck, nothing wrong.");
});

test("what mends a finding is copied at once", () => {
  expect(commandsText(["alter table a", "ALTER TABLE b;", "millrace connectors start c"])).toBe(
    "alter table a;\nALTER TABLE b;\nmillrace connectors start c",
  );
});
