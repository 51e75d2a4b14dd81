// Reports between replicas of two versions: what is understood of one, and which are as if they were not there.

import { expect, test } from "bun:test";
import { parseRunReport, parseTables, type RunReport } from "../../../src/connector/service/run-report.ts";

const report: RunReport = {
  form: 1,
  run_id: "run-1",
  status: { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } },
  reading: { runId: "run-1", rowsIn: 3, rowsDurable: 2, bytesDurable: 20, lagSeconds: null, lagBytes: 7 },
  is_over: false,
  load: { running: 1, waiting: 0 },
  phase: { state: "realtime", health: "heartbeat" },
};
const table = { schema: "public", name: "t", state: "Streaming", rows_in: 3, history: false } as const;

test("what was written is read", () => {
  expect(parseRunReport(JSON.stringify(report))).toEqual(report);
  const unmeasured = { ...report, reading: null };
  expect(parseRunReport(JSON.stringify(unmeasured))).toEqual(unmeasured);
  expect(parseTables(JSON.stringify([table]))).toEqual([table]);
});

test("what a newer version says in addition is left out, so that the API shows what its document has", () => {
  const state = { realtime: { name: "slot", mood: "good" } };
  const newer = { ...report, status: { ...report.status, state, color: "blue" }, more: 1 };
  expect(parseRunReport(JSON.stringify(newer))?.status).toEqual(report.status);
  expect(parseTables(JSON.stringify([{ ...table, size: 5 }]))).toEqual([table]);
});

test.each([
  ["another form", { ...report, form: 2 }],
  ["an unknown phase", { ...report, status: { state: { dreaming: {} }, status: { heartbeat: {} } } }],
  ["a part that is missing", { ...report, load: undefined }],
  ["a part of another type", { ...report, is_over: "no" }],
  ["no object", null],
])("a report is ignored that has %s", (_, body) => {
  expect(parseRunReport(JSON.stringify(body))).toBeNull();
});

test("no JSON, and tables in an unknown state, are ignored", () => {
  expect(parseRunReport("{")).toBeNull();
  expect(parseTables("")).toBeNull();
  expect(parseTables(JSON.stringify([{ ...table, state: "Flying" }]))).toBeNull();
});
