// What the log says of a connector's status: which connector and which run it is of, once for each thing that is new.

import { expect, setDefaultTimeout, test } from "bun:test";
import { RuntimeFixture } from "../support/runtime-fixture.ts";

setDefaultTimeout(60_000);

test("each line bears connector and run, and what stays the same is not said again", async () => {
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
