// When a connector that fails is tried again.

import { expect, test } from "bun:test";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";

const retry = { retry: { attempt: 1, reason: "Nothing answers." } };

test("is told while it is to come, and no longer than the failure", async () => {
  await using runtime = await RuntimeFixture.open();
  const { board } = runtime;
  board.begin("orders", "run 1");
  const next = () => board.status("orders").next_attempt_at;
  const before = Date.now();
  board.reportHealth("orders", "run 1", "Connector", retry, 60_000);
  expect(Date.parse(next() ?? "") - before).toBeWithin(60_000, 70_000);
  board.reportHealth("orders", "run 1", "Connector", retry, 0);
  expect(next()).toBeUndefined();
  board.reportHealth("orders", "run 1", "Connector", retry, 60_000);
  board.reportHealth("orders", "run 1", "Connector", { heartbeat: {} });
  expect(next()).toBeUndefined();
});
