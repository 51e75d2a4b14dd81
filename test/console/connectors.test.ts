import { describe, expect, test } from "bun:test";
import { conditionOf } from "../../console/connector/condition.ts";
import {
  copyProgress,
  noEstimate,
  secondsLeft,
  tableCopyProgress,
} from "../../console/connector/copy-progress.ts";
import { copyRate } from "../../console/connector/copy-rate.ts";
import { type KnownConnector, knownConnector } from "../../console/connector/known-connector.ts";
import { lastRate } from "../../console/connector/sample-series.ts";
import { countByTone, listed, matching } from "../../console/pages/connectors/connector-order.ts";
import { connectorsOf, putConnector, putStatus } from "../../console/store/connectors.ts";
import { noSamples, wholeWindow, withAnswer } from "../../console/store/samples.ts";
import type { GivenConnector } from "../../src/connector/connector.ts";
import type { ConnectorStatus, RunProgress } from "../../src/connector/status.ts";

const progress: RunProgress = {
  rows_in: 0,
  rows_durable: 0,
  bytes_durable: 0,
  requests: 0,
  lag_bytes: 0,
  lag_seconds: 0,
  latency_ms: null,
  resume_lsn: null,
  snapshot: { tables: 4, tables_done: 1, rows: 250, bytes: 1, estimated_rows: 1_000 },
};
const streaming: ConnectorStatus = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
const aside = {
  schema: "public",
  name: "t",
  reason: "a column is missing",
  commands: ["ALTER TABLE t ADD c int"],
};

const statuses: Readonly<Record<string, ConnectorStatus>> = {
  Failed: { ...streaming, status: { failed: { reason: "gone" } } },
  Retrying: { ...streaming, status: { retry: { attempt: 3, reason: "away" } } },
  "Needs you": { ...streaming, tables_set_aside: [aside] },
  Warning: { ...streaming, status: { warning: { reason: "log" } } },
  Behind: { ...streaming, progress: { ...progress, lag_seconds: 90 } },
  Copying: { state: { snapshot: { name: "public.t" } }, status: { start: {} } },
  Starting: { state: { start: {} }, status: { start: {} } },
  Streaming: { ...streaming, progress },
  Stopped: { state: { shutdown: {} }, status: { complete: {} } },
};

function connector(id: string, status: ConnectorStatus, runId = "1"): KnownConnector {
  const connection = {
    host: "db1",
    port: 5432,
    user: "u",
    password: "***",
    database: "shop",
    ssl_mode: "Prefer" as const,
  };
  const source = { postgres: { connection, replication_type: { logical_replication: {} } } };
  const sink = { webhook: { url: "https://user:pw@api.example.com" } };
  const entry = {
    status,
    run_id: runId,
    created_at: "2026-01-01T00:00:00.000Z",
    connector: { id, source, sink },
  };
  return knownConnector(entry as GivenConnector, undefined);
}

const condition = (status: ConnectorStatus) => conditionOf(connector("any", status));

describe("the condition", () => {
  test.each(Object.entries(statuses))("%s", (word, status) => {
    expect(condition(status).word).toBe(word);
  });

  test("ranks what needs somebody first", () => {
    const ranks = Object.values(statuses).map((status) => condition(status).rank);
    expect(ranks).toEqual([...ranks].sort((a, b) => a - b));
  });

  test("says the reason", () => {
    expect(condition(statuses.Retrying as ConnectorStatus)).toMatchObject({ detail: "away" });
    expect(condition(statuses["Needs you"] as ConnectorStatus).detail).toContain("public.t ");
    const late = { ...progress, lag_seconds: 90 };
    for (const status of [statuses.Warning, statuses.Behind])
      expect(condition({ ...(status as ConnectorStatus), progress: late }).detail).toContain(" behind");
  });

  test("names the table that is copied only where there is no other", () => {
    const copying = { ...(statuses.Copying as ConnectorStatus), progress };
    expect(condition(copying).detail).toBeNull();
    const one = { ...progress, snapshot: { ...progress.snapshot, tables: 1 } };
    expect(condition({ ...copying, progress: one }).detail).toBe("public.t");
  });
});

describe("the list", () => {
  const all = listed(
    Object.entries(statuses)
      .map(([word, status]) => connector(word.replace(" ", "-"), status))
      .reverse(),
  );

  test("has what needs somebody first", () => {
    expect(all.map(({ condition }) => condition.word)).toEqual([
      ...[
        "Failed",
        "Retrying",
        "Needs you",
        "Warning",
        "Behind",
        "Copying",
        "Starting",
        "Streaming",
        "Stopped",
      ],
    ]);
  });

  test("finds by all words, in id, sides and state", () => {
    expect(matching(all, { text: "SHOP failed", tone: null }).map(({ entry }) => entry.connector.id)).toEqual(
      ["Failed"],
    );
    expect(matching(all, { text: "api.example", tone: "good" })).toHaveLength(1);
    expect(matching(all, { text: "pw", tone: null })).toEqual([]);
    const moved = listed([connector("moved", { ...streaming, replica: "node-7" })]);
    expect(matching([...all, ...moved], { text: "node-7", tone: null })).toEqual(moved);
    expect(countByTone(all).get("bad")).toBe(2);
  });
});

describe("what events change", () => {
  const running = connector("a", streaming, "2");
  const known = () => connectorsOf([running], new Map());

  test("a status of the present or a newer run counts", () => {
    const stopped = statuses.Stopped as ConnectorStatus;
    const draft = known();
    putStatus(draft, "a", "3", stopped);
    expect(draft.get("a")).toMatchObject({ run_id: "3", status: stopped });
  });

  test("one of an older run, or of a connector that is not known, changes nothing", () => {
    const draft = known();
    putStatus(draft, "a", "1", streaming);
    putStatus(draft, "b", "9", streaming);
    expect([...draft]).toEqual([["a", running]]);
  });

  test("a connector takes its own place", () => {
    const draft = known();
    putConnector(draft, connector("a", streaming, "4"));
    expect(draft.size).toBe(1);
    expect(draft.get("a")?.run_id).toBe("4");
  });
});

describe("a lag that swings around a minute", () => {
  const at = (lag_seconds: number | null): ConnectorStatus => ({
    ...streaming,
    progress: { ...progress, lag_seconds },
  });
  const others = ["a", "c"].map((id) => connector(id, streaming));
  /** The place of a connector in the list after each of these lags, told by status, by itself, and in the whole list. */
  function placesAfter(lags: readonly (number | null)[]): number[] {
    let draft = connectorsOf([...others, connector("b", streaming)], new Map());
    return lags.map((lag, turn) => {
      if (turn % 3 === 0) putStatus(draft, "b", "1", at(lag));
      else if (turn % 3 === 1) putConnector(draft, connector("b", at(lag)));
      else draft = connectorsOf([...others, connector("b", at(lag))], draft);
      return listed(draft.values()).findIndex(({ entry }) => entry.connector.id === "b");
    });
  }

  test("moves the connector up once, and down when it has caught up", () => {
    const lags = [59, 61, 58, 62, 45, 61, null, 31, 60, 29, 40, 59, 60];
    expect(placesAfter(lags)).toEqual([1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0]);
  });

  test("counts no longer once it does not stream", () => {
    const draft = connectorsOf([connector("b", at(90))], new Map());
    putStatus(draft, "b", "1", statuses.Stopped as ConnectorStatus);
    putStatus(draft, "b", "2", at(40));
    expect(draft.get("b")?.isBehind).toBe(false);
  });

  test("is said to have been more while it is less than a minute", () => {
    const known = knownConnector(connector("b", at(40)), connector("b", at(90)));
    expect(conditionOf(known)).toMatchObject({
      word: "Behind",
      detail: "40\u202fs behind, and it was more.",
    });
  });
});

describe("samples", () => {
  const answered = (rows_durable: (number | null)[], first_at: string, id = "a") => ({
    step_seconds: 5,
    samples: [
      {
        connector_id: id,
        first_at,
        rows_durable,
        rows_in: rows_durable,
        bytes_durable: rows_durable,
        lag_seconds: rows_durable.map(() => 1),
        lag_bytes: rows_durable.map(() => null),
      },
    ],
  });
  const midnight = "2026-01-01T00:00:00.000Z";

  test("are added to those that are known, ten minutes of them", () => {
    const first = withAnswer(noSamples, answered(Array(119).fill(1), midnight), null);
    const both = withAnswer(first, answered([2, 50], "2026-01-01T00:09:55.000Z"), null).byId.get("a");
    expect(both?.rows_durable).toHaveLength(120);
    expect(both?.rows_durable.slice(-3)).toEqual([1, 2, 50]);
    expect(both?.lag_seconds.at(-1)).toBe(1);
    expect(both && lastRate(both)).toBe(10);
  });

  test("keep their place while fewer than ten minutes are known", () => {
    const few = withAnswer(noSamples, answered([3, null, 5], midnight), null).byId.get("a");
    const window = few ? wholeWindow(few) : [];
    expect(window).toHaveLength(120);
    expect(window.slice(-4)).toEqual([null, 3, null, 5]);
  });

  test("of connectors that are deleted are forgotten, and do not come again with a late answer", () => {
    const both = withAnswer(
      withAnswer(noSamples, answered([1], midnight), null),
      answered([1], midnight, "b"),
      null,
    );
    expect([...both.byId.keys()]).toEqual(["a", "b"]);
    const left = connectorsOf([connector("b", streaming)], new Map());
    const after = withAnswer(both, answered([2], "2026-01-01T00:00:05.000Z"), left);
    expect([...after.byId.keys()]).toEqual(["b"]);
    expect(withAnswer(both, { step_seconds: 5, samples: [] }, new Map()).byId.size).toBe(0);
  });
});

describe("a copy", () => {
  test("is as far as its rows, by the estimate", () => {
    const status = { ...(statuses.Copying as ConnectorStatus), progress };
    expect(copyProgress(status)).toMatchObject({ done: 250, all: 1_000 });
  });

  test("that brings more than was expected is not done before it is", () => {
    const more = { ...progress, snapshot: { ...progress.snapshot, rows: 1_200 } };
    expect(copyProgress({ ...streaming, progress: more })).toMatchObject({ done: 1_188, all: 1_200 });
  });

  test("of which the source expected far less, or nothing, is as far as its tables; of one table nobody knows", () => {
    const of = (snapshot: Partial<RunProgress["snapshot"]>) => {
      const status = {
        ...streaming,
        progress: { ...progress, snapshot: { ...progress.snapshot, ...snapshot } },
      };
      return copyProgress(status);
    };
    const byTables = { done: 1, all: 4, isInRows: false };
    expect(of({ rows: 5_000 })).toMatchObject(byTables);
    expect(of({ rows: 5_000, estimated_rows: 0 })).toMatchObject(byTables);
    const one = { tables: 1, tables_done: 0, rows: 5_000, estimated_rows: 0 };
    expect(of(one)).toMatchObject({ all: 0, note: "0 of 1\u202ftable, 5\u202f000 rows so far" });
    expect(of({ ...one, tables_done: 1 })).toMatchObject({ done: 1, all: 1 });
  });

  test("of one table is as far as was expected, and unknown beyond", () => {
    expect(tableCopyProgress({ rows: 250, estimated_rows: 1_000 })).toMatchObject({ done: 250, all: 1_000 });
    expect(tableCopyProgress({ rows: 999, estimated_rows: 1_000 })).toMatchObject({ done: 990, all: 1_000 });
    expect(tableCopyProgress({ rows: 1_000, estimated_rows: 1_000 })).toMatchObject({ all: 0 });
  });

  test("whose rows are all read says what the sink does with them, and how far that is where somebody knows", () => {
    const of = (phase: "Writing" | "Finishing", health: ConnectorStatus["status"] = { heartbeat: {} }) =>
      copyProgress({
        state: { snapshot: { name: "public.t" } },
        status: health,
        progress: {
          ...progress,
          snapshot: { ...progress.snapshot, tables: 1, tables_done: 0, rows: 5_000, phase },
        },
      });
    const read = "all 5\u202f000 rows are read and being written into the table";
    expect(of("Writing")).toMatchObject({ all: 0, note: `0 of 1\u202ftable, ${read}` });
    expect(of("Finishing").note).toContain("all 5\u202f000 rows are written; keys and indexes follow");
    expect(of("Writing", { retry: { attempt: 2, reason: "away" } }).note).not.toContain("written");
    const one = { rows: 5_000, estimated_rows: 5_000, phase: "Writing" } as const;
    expect(tableCopyProgress(one)).toEqual({ done: 0, all: 0, note: read });
    expect(tableCopyProgress({ ...one, rows_written: 2_000 })).toEqual({
      done: 2_000,
      all: 5_000,
      note: read,
    });
    expect(tableCopyProgress({ ...one, phase: "Finishing" })).toMatchObject({ all: 0 });
  });

  test("without an estimate says what is known, why there is no percentage, and the command that gives one", () => {
    const of = (snapshot: Partial<RunProgress["snapshot"]>) =>
      noEstimate({
        state: { snapshot: { name: 'public."Orders"' } },
        status: { heartbeat: {} },
        progress: { ...progress, snapshot: { ...progress.snapshot, ...snapshot } },
      });
    const never = of({ tables: 1, tables_done: 0, rows: 12_300, estimated_rows: 0 });
    expect(never?.reason).toContain("never analysed");
    expect(never?.commands).toEqual(['ANALYZE public."Orders";']);
    expect(of({ rows: 12_300, estimated_rows: 1_000 })?.reason).toContain("statistics are old");
    expect([of({ rows: 250 }), of({ rows: 0, estimated_rows: 0 })]).toEqual([null, null]);
    expect(tableCopyProgress({ rows: 12_300, estimated_rows: 12_300 }).note).toContain(
      "12\u202f300 rows so far",
    );
  });

  test("whose first rows are being read has no speed of nothing", () => {
    const points = [0, 4_000].map((atMs) => ({ atMs, rows: 0 }));
    expect(copyRate(points)).toBeNull();
    expect(tableCopyProgress({ rows: 0, estimated_rows: 1_000 }).note).toBe("reading");
    const none = { ...progress, snapshot: { ...progress.snapshot, tables_done: 0, rows: 0 } };
    expect(copyProgress({ ...streaming, progress: none }).note).toBe("0 of 4\u202ftables, reading");
  });

  test("has time left once its speed is known", () => {
    expect(secondsLeft(250, 1_000, 75)).toBe(10);
    expect(secondsLeft(250, 1_000, null)).toBeNull();
    expect(secondsLeft(1_000, 1_000, 75)).toBeNull();
  });
});
