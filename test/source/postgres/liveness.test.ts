import { expect, test } from "bun:test";
import {
  collectForMs,
  feedbackIntervalMs,
  liveness,
  silenceLimitMs,
  streamPace,
} from "../../../src/source/postgres/stream/feedback.ts";
import { ServerLiveness } from "../../../src/source/postgres/stream/server-liveness.ts";

test("a silent server is pinged, then probed over another connection, then given up", () => {
  const limit = silenceLimitMs(60_000);
  const verdicts = [0, 2_400, 2_500, 4_900, 5_000, 59_000, 60_000].map((ms) => liveness(ms, limit, true));
  expect(verdicts).toEqual(["alive", "alive", "ping", "ping", "probe", "probe", "dead"]);
});

test("where a server answers within 5 s or is taken for dead, it is probed before", () => {
  const limit = silenceLimitMs(5_000);
  const verdicts = [2_400, 2_500, 4_900, 5_000].map((ms) => liveness(ms, limit, true));
  expect(verdicts).toEqual(["alive", "probe", "probe", "dead"]);
});

test.each([5_000, 60_000])(
  "a silent server is given up once its walsender is at work no more, where it may be silent for %d ms",
  (timeoutMs) => {
    let nowMs = 0;
    let works: () => void = () => {};
    const watch = (told: () => void): Disposable => {
      works = told;
      return { [Symbol.dispose]() {} };
    };
    const server = new ServerLiveness(timeoutMs, watch, () => nowMs);
    server.check(false);
    for (nowMs = 1_000; nowMs <= 600_000; nowMs += 1_000) {
      if (nowMs % 5_000 === 0) works();
      expect(server.check(false)).not.toBe("dead");
    }
    for (; server.check(false) !== "dead"; nowMs += 1_000) expect(nowMs).toBeLessThan(616_000);
  },
);

test("while reading is paused, silence does not count", () => {
  expect(liveness(1e9, silenceLimitMs(60_000), false)).toBe("alive");
});

test("feedback is sent well within wal_sender_timeout", () => {
  for (const timeoutMs of [1_000, 2_000, 60_000, 3_600_000]) {
    expect(feedbackIntervalMs(timeoutMs)).toBeLessThan(timeoutMs / 3);
  }
  expect(feedbackIntervalMs(0)).toBeGreaterThan(0);
});

test("changes are collected only in a backlog, and only briefly", () => {
  expect(collectForMs(false, 0, streamPace)).toBe(0);
  expect(collectForMs(true, 50, streamPace)).toBe(150);
  expect(collectForMs(true, 1_000, streamPace)).toBe(0);
});
