// Which replicas the page of the service marks.

import { expect, test } from "bun:test";
import { replicaRows } from "../../../../console/pages/service/replica-rows.ts";
import type { Replica } from "../../../../src/connector/service/service-report.ts";

const replica = (id: string, change: Partial<Replica> = {}): Replica => ({
  id,
  host: "h",
  version: "1.2.0",
  alive: true,
  weight: 1,
  connectors: 0,
  started_at: "2026-01-01T00:00:00.000Z",
  seen_at: "2026-01-01T00:00:00.000Z",
  ...change,
});
const rows = (ours: string, ...replicas: Replica[]) => replicaRows({ replicas, this: ours });

test("the one that answers is marked, and those that live come first", () => {
  const shown = rows("c", replica("a", { alive: false }), replica("b"), replica("c"));
  expect(shown.map(({ replica: { id } }) => id)).toEqual(["b", "c", "a"]);
  expect(shown.map(({ isOurs }) => isOurs)).toEqual([false, true, false]);
});

test("a living one of another version than the one that answers is marked, a dead one is not", () => {
  const other = { version: "1.3.0" };
  const shown = rows("a", replica("a"), replica("b", other), replica("c", { ...other, alive: false }));
  expect(shown.map(({ isOtherVersion }) => isOtherVersion)).toEqual([false, true, false]);
  expect(rows("gone", replica("a"), replica("b", other)).some((row) => row.isOtherVersion)).toBe(false);
});
