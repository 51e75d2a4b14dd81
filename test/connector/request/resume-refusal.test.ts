import { describe, expect, test } from "bun:test";
import type { ConnectorConfig } from "../../../src/connector/connector.ts";
import { canResume, refusalOfResume } from "../../../src/connector/request/resume-refusal.ts";
import type { ConnectorStatus } from "../../../src/connector/status.ts";
import { sampleConfig } from "../../support/api/sample-connector.ts";

const config = sampleConfig("orders");
const realtime = { state: { realtime: { name: "slot" } } };
const lastError = (code: string) => ({
  last_error: { code, reason: "Why.", at: "2026-01-01T00:00:00.000Z" },
});
const failed = (code: string): ConnectorStatus => ({
  ...realtime,
  status: { failed: { reason: "Why." } },
  ...lastError(code),
});
const running: ConnectorStatus = { ...realtime, status: { heartbeat: {} } };
const stopped: ConnectorStatus = { state: { shutdown: {} }, status: { complete: {} } };
const refusal = (status: ConnectorStatus, isAsked = false, of = config, beginsAnew = false) => {
  const error = refusalOfResume(of, status, { isAsked, beginsAnew });
  return error && [error.code, error.message];
};

test.each(["slot_missing", "slot_invalidated", "slot_ahead", "source_behind"])(
  "after %s it goes on",
  (code) => {
    expect(refusal(failed(code))).toBeNull();
    expect(refusal(failed(code), true)).toBeNull();
  },
);

test("one that is stopped may have lost its slot meanwhile", () => {
  expect(refusal(stopped)).toBeNull();
  expect(refusal({ ...stopped, ...lastError("sink_connection_lost") })).toBeNull();
});

describe("it is refused, with the reason", () => {
  test.each<[string, ConnectorStatus, boolean, string]>([
    ["runs", running, false, "has not lost its slot"],
    ["was asked", running, true, "told to resume already"],
    ["failed for another reason", failed("source_permission_denied"), false, "mend what its status says"],
    ["has another source", failed("source_replaced"), false, "Another database cluster"],
    ["has an empty sink", failed("checkpoint_missing"), false, "no longer knows"],
    ["has met another source when it was asked", failed("source_replaced"), true, "Another database cluster"],
    [
      "was stopped after another source",
      { ...stopped, ...lastError("source_replaced") },
      false,
      "Another database",
    ],
    [
      "was stopped with an empty sink",
      { ...stopped, ...lastError("checkpoint_missing") },
      false,
      "no longer",
    ],
  ])("%s", (_, status, isAsked, text) => {
    expect(refusal(status, isAsked)).toEqual(["conflict", expect.stringContaining(text)]);
  });

  test.each([
    ["is stopped", stopped],
    ["failed at another source before", { ...stopped, ...lastError("source_replaced") }],
    ["failed", failed("slot_missing")],
  ])("%s, and copies everything with its next run", (_, status) => {
    const copies = expect.stringContaining("the connector copies everything");
    expect(refusal(status, false, config, true)).toEqual(["conflict", copies]);
  });

  test("is resuming", () => {
    const resume = { tables: 5, tables_done: 2, table: null, rows: 0, estimated_rows: 0 };
    const status = { ...running, progress: { resume } } as unknown as ConnectorStatus;
    expect(refusal(status)).toEqual(["conflict", expect.stringContaining("2 of 5 tables")]);
  });

  test("cannot be compared", () => {
    const { postgres } = config.source;
    const { postgres: sink } = config.sink;
    if (!postgres || !sink) throw new Error("both are Postgres");
    const others: ConnectorConfig[] = [
      { ...config, source: { postgres: { ...postgres, replication_type: { snapshot: {} } } } },
      { ...config, sink: { postgres: { ...sink, connection: { ...sink.connection, max_pool_size: 1 } } } },
      { ...config, sink: {} },
    ];
    for (const other of others) {
      expect(refusal(failed("slot_missing"), false, other)?.[0]).toBe("unsupported_kind");
      expect(canResume(other)).toBe(false);
    }
    expect(refusal(failed("slot_missing"), false, { ...config, disabled: true })?.[0]).toBe("conflict");
  });
});
