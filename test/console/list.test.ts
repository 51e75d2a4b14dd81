import { describe, expect, test } from "bun:test";
import { lagOf } from "../../console/connector/lag.ts";
import { retryWords } from "../../console/connector/retry-words.ts";
import { heldRows } from "../../console/parts/steady-rows.ts";
import type { ConnectorStatus, RunProgress } from "../../src/connector/status.ts";

describe("rows that are held", () => {
  const row = (id: string) => ({ id });
  const rows = (shown: string, wanted: string, all = wanted) =>
    heldRows([...shown], {
      wanted: [...wanted].map(row),
      all: [...all].map(row),
      keyOf: ({ id }: { id: string }) => id,
    })
      .map(({ id }) => id)
      .join("");

  test("keep their order, whatever the new one is", () => {
    expect(rows("abc", "cab")).toBe("abc");
  });

  test("stay where they no longer match, and go where they no longer exist", () => {
    expect(rows("abc", "ca", "abc")).toBe("abc");
    expect(rows("abc", "ca")).toBe("ac");
  });

  test("have new ones behind them", () => {
    expect(rows("ab", "xayb")).toBe("abxy");
  });
});

describe("the lag", () => {
  const streaming: ConnectorStatus = { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } };
  const withProgress = (lag: Pick<RunProgress, "lag_seconds" | "lag_bytes">): ConnectorStatus => ({
    ...streaming,
    progress: lag as RunProgress,
  });
  const figures = (lag_seconds: number | null, lag_bytes: number | null) => ({
    lag_seconds: [1, lag_seconds],
    lag_bytes: [1, lag_bytes],
    stepSeconds: 5,
    firstAt: 0,
    steps: 2,
  });

  test("is that of the newest sample, or of the status where there is none", () => {
    const status = withProgress({ lag_seconds: 7, lag_bytes: 70 });
    expect(lagOf(status, figures(9, 90))).toEqual({ seconds: 9, bytes: 90 });
    expect(lagOf(status, figures(null, null))).toEqual({ seconds: 7, bytes: 70 });
    expect(lagOf(status, null)).toEqual({ seconds: 7, bytes: 70 });
    expect(lagOf(streaming, null)).toEqual({ seconds: null, bytes: null });
  });

  test("of a copy whose sink is away is what the slot keeps", () => {
    const status = withProgress({ lag_seconds: null, lag_bytes: 40_616 });
    expect(lagOf(status, figures(null, null))).toEqual({ seconds: null, bytes: 40_616 });
    expect(lagOf(withProgress({ lag_seconds: null, lag_bytes: 0 }), null).bytes).toBeNull();
    expect(lagOf(withProgress({ lag_seconds: 0, lag_bytes: 0 }), null).bytes).toBe(0);
  });
});

test("what is tried again says when, counting down", () => {
  const status = { state: { start: {} }, status: { retry: { attempt: 3, reason: "away" } } };
  expect(retryWords(status, 0)).toBe("3\u202fattempts failed");
  const next = { ...status, next_attempt_at: "1970-01-01T00:00:05.000Z" };
  expect(retryWords(next, 800)).toBe("3\u202fattempts failed, next in 4\u202fs");
  expect(retryWords(next, 5_500)).toBe("3\u202fattempts failed, next now");
  expect(retryWords({ ...status, status: { heartbeat: {} } }, 0)).toBeNull();
});
