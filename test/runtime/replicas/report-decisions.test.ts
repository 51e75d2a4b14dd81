// When a holder's reports are due.

import { expect, test } from "bun:test";
import {
  againMs,
  areTablesDue,
  isStatusDue,
  type Written,
} from "../../../src/runtime/replicas/report-decisions.ts";

const written: Written = { term: 3, content: "a", atMs: 0, length: 10 };
const at = (nowMs: number, content = "a", term = 3) => ({ id: "orders", term, content, nowMs });

test("a status is due when it is new, under a new term, and again after a while", () => {
  expect(isStatusDue(undefined, at(0))).toBe(true);
  expect(isStatusDue(written, at(1))).toBe(false);
  expect(isStatusDue(written, at(1, "b"))).toBe(true);
  expect(isStatusDue(written, at(1, "a", 4))).toBe(true);
  expect(isStatusDue(written, at(19_999))).toBe(false);
  expect(isStatusDue(written, at(30_000))).toBe(true);
});

test("tables are due every two seconds while they change, large ones every ten, and again after minutes", () => {
  expect(areTablesDue(undefined, at(0))).toBe(true);
  expect(areTablesDue(written, at(1_999, "b"))).toBe(false);
  expect(areTablesDue(written, at(2_000, "b"))).toBe(true);
  expect(areTablesDue(written, at(1, "a", 4))).toBe(true);
  const large = { ...written, length: 300_000 };
  expect(areTablesDue(large, at(9_999, "b"))).toBe(false);
  expect(areTablesDue(large, at(10_000, "b"))).toBe(true);
  expect(areTablesDue(written, at(199_999))).toBe(false);
  expect(areTablesDue(written, at(300_000))).toBe(true);
});

test("reports that were first written at once are not written again at once", () => {
  const times = Array.from({ length: 300 }, (_, n) => againMs(`connector-${n}`, 30_000));
  expect(Math.min(...times)).toBeGreaterThanOrEqual(20_000);
  expect(Math.max(...times)).toBeLessThanOrEqual(30_000);
  const perSecond = Map.groupBy(times, (ms) => Math.floor(ms / 1_000));
  expect(Math.max(...[...perSecond.values()].map((group) => group.length))).toBeLessThan(90);
});
