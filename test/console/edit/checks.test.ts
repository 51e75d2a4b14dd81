// The tests of a side, as the page shows them.

import { expect, test } from "bun:test";
import { shownChecks } from "../../../console/pages/edit/model/checks.ts";
import type { ValidateEvent } from "../../../src/connector/validation.ts";

const timestamp = "2026-03-01T12:00:00.000Z";
const permission = (name: string) => ({
  Permission: { name, description: `The role may ${name}.`, suggestions: [`GRANT ${name};`] },
});

test("what failed comes first, with what to paste; what passed is short", () => {
  const events: ValidateEvent[] = [
    { start: {} },
    {
      test: {
        id: "1",
        timestamp,
        test_type: { Network: { subtype: "Reachability" } },
        status: { Success: {} },
      },
    },
    {
      test: {
        id: "2",
        timestamp,
        test_type: permission("Select"),
        status: { Warn: {} },
        message: "One table cannot be read.",
        commands: ["GRANT SELECT ON a TO b;"],
      },
    },
    {
      test: {
        id: "3",
        timestamp,
        test_type: permission("Replication"),
        status: { Failed: { reason: "No." } },
      },
    },
    {
      test: {
        id: "4",
        timestamp,
        test_type: { Config: { name: "wal_level", description: "It is logical.", suggestions: ["never"] } },
        status: { Success: {} },
      },
    },
    {
      test: {
        id: "5",
        timestamp,
        test_type: { TLS: {} },
        status: { Skipped: { reason: "The network failed." } },
      },
    },
    { failed: { reason: "No." } },
  ];
  const { checks, failed, warned } = shownChecks(events);
  expect(checks.map(({ title, word, commands }) => [title, word, commands])).toEqual([
    ["Privilege: Replication", "Failed", ["GRANT Replication;"]],
    ["Privilege: Select", "Warning", ["GRANT SELECT ON a TO b;"]],
    ["TLS", "Skipped", []],
    ["Network", "Passed", []],
    ["Setting: wal_level", "Passed", []],
  ]);
  expect(checks[0]?.details).toEqual(["No."]);
  expect([failed, warned]).toEqual([1, 1]);
});
