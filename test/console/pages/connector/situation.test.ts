import { describe, expect, test } from "bun:test";
import { copyRate, withCopyPoint } from "../../../../console/connector/copy-rate.ts";
import { furtherFacts, mainFacts } from "../../../../console/pages/connector/overview/facts.ts";
import {
  pastError,
  presentCode,
  situationOf,
} from "../../../../console/pages/connector/overview/situation.ts";
import type { ConnectorStatus, RunProgress } from "../../../../src/connector/status.ts";
import { describeSetAside } from "../../../../src/pipeline/set-aside-warning.ts";
import { silentChangeWarning } from "../../../../src/source/postgres/shapes/column-changes.ts";
import { given } from "./given.ts";

const realtime = { realtime: { name: "slot" } };
const progress: RunProgress = {
  rows_in: 1_500,
  rows_durable: 1_400,
  bytes_durable: 2_000_000,
  requests: 0,
  snapshot: { tables: 3, tables_done: 2, rows: 10, bytes: 10, estimated_rows: 20 },
  lag_bytes: 0,
  lag_seconds: 0,
  latency_ms: 12,
  resume_lsn: "0/1",
};
const at = "2026-01-01T00:00:00Z";
const situation = (status: ConnectorStatus) => situationOf(given({ status }));

describe("the situation", () => {
  test("names what is wrong in the service's words, and what to do", () => {
    const failed = { state: realtime, status: { failed: { reason: "The slot is gone." } } };
    expect(situation(failed)).toMatchObject({ tone: "bad", reason: "The slot is gone." });
    expect(situation(failed).advice).toContain("press Start");
    const last_error = { code: "slot_missing", reason: "The slot is gone.", at };
    expect(situation({ ...failed, last_error }).advice).toContain("Resume and repair");
    const replaced = { ...last_error, code: "source_replaced" };
    expect(situation({ ...failed, last_error: replaced }).advice).toContain("Copy everything anew");
  });

  test("has the SQL that helps", () => {
    const initialize = { sub_state: "waits for wal_level", commands: ["ALTER SYSTEM"] };
    expect(situation({ state: { initialize }, status: { heartbeat: {} } }).commands).toEqual([
      "ALTER SYSTEM",
    ]);
  });

  test("tells a stream that is far behind", () => {
    const status = { state: realtime, status: { heartbeat: {} }, progress: { ...progress, lag_seconds: 90 } };
    expect(situation(status)).toMatchObject({ tone: "warning" });
    expect(situation({ ...status, progress })).toMatchObject({ tone: "good", advice: null });
  });

  test("tells apart what the warning says of tables that are set aside", () => {
    const tables = ["a", 'B "b"', "c", "d"].map((name, index) => ({
      schema: "public",
      name,
      reason: `Why $& ${name}.`,
      commands: index === 0 ? ["alter table x", "drop view y"] : [],
      since: index === 1 ? null : 1n,
    }));
    // In the status each statement has its end.
    const shown = tables.map(({ since: _, commands, ...table }) => ({
      ...table,
      commands: commands.map((command) => `${command};`),
    }));
    const told = describeSetAside(tables as unknown as Parameters<typeof describeSetAside>[0]);
    const warning = (reason: string) =>
      situation({ state: realtime, status: { warning: { reason } }, tables_set_aside: shown });
    expect(warning(`${told} The disk is full.`)).toMatchObject({
      tone: "warning",
      reason: "The disk is full.",
    });
    const changed = (name: string) =>
      silentChangeWarning(
        { schema: "public", name } as Parameters<typeof silentChangeWarning>[0],
        "it was rewritten",
      );
    // It is copied again by itself: there are no two remedies for it.
    expect(warning(`${changed("a")} ${told}`).reason).toBeNull();
    expect(warning(`${changed("a")} ${changed("other")} ${told}`).reason).toBe(changed("other"));
    expect(warning(`${told}`)).toMatchObject({
      tone: "warning",
      reason: null,
      title: "Streaming changes, but 4 tables wait for you",
    });
  });

  test("tells a deletion that waits", () => {
    const status = { state: { shutdown: {} }, status: { retry: { attempt: 1, reason: "It is away." } } };
    expect(situation(status)).toMatchObject({
      title: "The deletion waits for the source",
      reason: "It is away.",
    });
  });

  test("an error that is over is told apart from one that is not", () => {
    const last_error = { code: "x", reason: "Why.", at };
    const over = { state: realtime, status: { heartbeat: {} }, last_error };
    expect([pastError(over), presentCode(over)]).toEqual([last_error, null]);
    const failed = { state: realtime, status: { failed: { reason: "Why. Given up." } }, last_error };
    expect([pastError(failed), presentCode(failed)]).toEqual([null, "x"]);
  });
});

test("figures that are not known are dashes, and there are none before the first", () => {
  expect(mainFacts(given(), null)).toEqual([]);
  const status = { state: realtime, status: { heartbeat: {} }, progress: { ...progress, lag_seconds: null } };
  const facts = mainFacts(given({ status }), null);
  expect(facts.slice(0, 2).map(({ value }) => value)).toEqual(["–", "–"]);
  expect(facts.at(-1)?.note).toBe("100 on their way");
  const snapshot = { ...progress.snapshot, rows: 0 };
  const reading = {
    ...status,
    state: { snapshot: { name: "t" } },
    progress: { ...status.progress, snapshot },
  };
  expect(mainFacts(given({ status: reading }), 0)[1]?.value).toBe("–");
  expect(furtherFacts(given({ status }), Date.parse(at), false).map(({ label }) => label)).toEqual([
    ...["Slot", "Durable up to", "Copied in this run", "Run began", "Created"],
  ]);
});

test("the replica that runs a connector is shown where there are several", () => {
  const replicaOf = (status: ConnectorStatus) =>
    furtherFacts(given({ status }), Date.parse(at), true).find(({ label }) => label === "Replica")?.value;
  expect(replicaOf({ state: realtime, status: { heartbeat: {} }, replica: "a" })).toBe("a");
  expect(replicaOf({ state: { start: {} }, status: { start: {} } })).toBe("none");
});

test("a connector that only copies has no lag", () => {
  const status = { state: { complete: {} }, status: { complete: {} }, progress };
  const facts = mainFacts(given({ status, copiesOnly: true }), null);
  expect(facts.map(({ label }) => label)).toEqual(["Rows copied", "Tables copied"]);
});

test("the speed of a copy is that of the last half minute, and begins anew with another copy", () => {
  const points = (...all: [number, number][]) =>
    all.reduce<ReturnType<typeof withCopyPoint>>(
      (known, [atMs, rows]) => withCopyPoint(known, { atMs, rows }),
      [],
    );
  expect(copyRate(points([0, 0], [1_000, 100]))).toBeNull();
  expect(copyRate(points([0, 0], [4_000, 400]))).toBe(100);
  expect(copyRate(points([0, 0], [40_000, 400], [50_000, 1_400]))).toBe(100);
  expect(copyRate(points([0, 5_000], [4_000, 0], [8_000, 400]))).toBe(100);
});
