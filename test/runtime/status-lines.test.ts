// Status lines in the log: they name connector and run, and appear once for each change.

import { expect, test } from "bun:test";
import { saying } from "../../src/errors/answer-in-reason.ts";
import { StatusBoard } from "../../src/runtime/status/status-board.ts";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";
import { waitFor } from "../support/wait-for.ts";

test("each line names connector and run, and an unchanged status is not logged again", async () => {
  await using runtime = await RuntimeFixture.open();
  const { board } = runtime;
  board.begin("orders", "run 1");
  const retry = (attempt: number) =>
    board.reportHealth("orders", "run 1", "Source", { retry: { attempt, reason: "Nothing answers." } });
  for (const attempt of [1, 1, 2]) retry(attempt);
  board.begin("orders", "run 2");
  board.reportHealth("orders", "run 2", "Source", { failed: { reason: "It is over." } });
  const lines = runtime.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.every(({ connector }) => connector === "orders")).toBe(true);
  expect(lines.map(({ level, run, attempt, reason }) => ({ level, run, attempt, reason }))).toEqual([
    { level: "info", run: "run 1", attempt: undefined, reason: undefined },
    { level: "warn", run: "run 1", attempt: 1, reason: "Nothing answers." },
    { level: "warn", run: "run 1", attempt: 2, reason: "Nothing answers." },
    { level: "info", run: "run 2", attempt: undefined, reason: undefined },
    { level: "error", run: "run 2", attempt: undefined, reason: "It is over." },
  ]);
});

test("what a receiver said is in the status and the history, and not in the log", async () => {
  await using runtime = await RuntimeFixture.open();
  const { board } = runtime;
  await runtime.connectors.createOrReplace("orders", { ...sampleRequest(), disabled: true }, null);
  const runId = Bun.randomUUIDv7();
  board.begin("orders", runId);
  const reason = `the receiver answered 422 to 1 row${saying("no such column: planted")}. Mend the receiver`;
  board.reportHealth("orders", runId, "Target", { failed: { reason } });
  expect(board.status("orders").status).toEqual({ failed: { reason } });
  await board.flush();
  const history = await runtime.state.history.list("orders");
  expect(history.map(({ status }) => status.status)).toContainEqual({ failed: { reason } });
  expect(runtime.lines.join("")).toContain("answered 422 to 1 row");
  expect(runtime.lines.join("")).not.toContain("planted");
});

test("a flapping status is logged a few times only, and then its final value", async () => {
  await using runtime = await RuntimeFixture.open();
  const windowMs = 700;
  await using board = new StatusBoard(runtime.state.history, runtime.log, () => new Date(), {
    throttleMs: windowMs,
  });
  board.begin("orders", "run 1");
  const state = { realtime: { name: "slot" } };
  const retry = (reason: string, attempt = 1) =>
    board.report("orders", "run 1", "Source", { state, status: { retry: { attempt, reason } } });
  const goesOn = () => board.report("orders", "run 1", "Source", { state, status: { heartbeat: {} } });
  const reasons = () =>
    runtime.lines
      .map((line) => JSON.parse(line) as { component?: string; reason?: string; health: string })
      .flatMap(({ component, reason, health }) => (component === undefined ? [] : [reason ?? health]));
  for (let i = 1; i <= 10; i++) {
    retry(`answered 503 to ${i}`);
    goesOn();
  }
  const first = ["start", ...[1, 2, 3].flatMap((i) => [`answered 503 to ${i}`, "heartbeat"])];
  expect(reasons()).toEqual(first);
  // The status itself is never delayed.
  retry("answered 503 to 11");
  expect(board.status("orders").status).toEqual({ retry: { attempt: 1, reason: "answered 503 to 11" } });
  // The number of retries is not a change either.
  retry("answered 503 to 11", 2);
  goesOn();
  retry("answered 503 to 12");
  expect(reasons()).toEqual(first);
  await waitFor("the last line", () => reasons().length > first.length, { timeoutMs: 10_000 });
  expect(reasons()).toEqual([...first, "answered 503 to 12"]);
});

test("throttled lines end with their run, and with their connector", async () => {
  await using runtime = await RuntimeFixture.open();
  await using board = new StatusBoard(runtime.state.history, runtime.log, () => new Date(), {
    throttleMs: 300,
  });
  const flap = (connector: string, run: string) => {
    for (let i = 0; i < 5; i++) {
      board.reportHealth(connector, run, "Source", { retry: { attempt: 1, reason: `${run}: ${i}` } });
      board.reportHealth(connector, run, "Source", { heartbeat: {} });
    }
    board.reportHealth(connector, run, "Source", { retry: { attempt: 1, reason: `${run}: held` } });
  };
  for (const [connector, run] of [
    ["a", "run 1"],
    ["b", "run 2"],
  ] as const) {
    board.begin(connector, run);
    flap(connector, run);
  }
  // The next status is logged after it.
  board.begin("c", "run 4");
  flap("c", "run 4");
  board.reportHealth("c", "run 4", "Connector", { failed: { reason: "It is over." } });
  board.begin("a", "run 3");
  board.forget("b");
  await Bun.sleep(600);
  await board.flush();
  expect(runtime.lines.filter((line) => line.includes("held"))).toEqual([]);
  expect(runtime.lines.filter((line) => line.includes("run 1: 2"))).toHaveLength(1);
});
