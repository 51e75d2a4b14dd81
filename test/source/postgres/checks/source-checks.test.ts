import { expect, test } from "bun:test";
import {
  checkLongTransactions,
  checkRelease,
  checkWalRetention,
} from "../../../../src/source/postgres/checks/source-checks.ts";
import type { ServerFacts } from "../../../../src/source/postgres/checks/source-facts.ts";

const quiet: ServerFacts = {
  user: "u",
  version: 170_000,
  walLevel: "logical",
  mayReplicate: true,
  mayCreatePublication: true,
  maxSlots: 10,
  usedSlots: 0,
  maxSenders: 10,
  usedSenders: 0,
  maxSlotWalKeepSize: "-1",
  idleSlotTimeout: "0",
  longTransactions: [],
  hiddenTransactions: [],
};

test("long transactions are named by pid, age and query, with the SQL that ends them", () => {
  expect(checkLongTransactions(quiet)).toEqual({ type: "passed" });
  const finding = checkLongTransactions({
    ...quiet,
    longTransactions: [
      { pid: 42, gid: null, ageSeconds: 300, query: "update t set a = 1" },
      { pid: null, gid: "it's", ageSeconds: 90, query: "PREPARE TRANSACTION" },
    ],
  });
  expect(finding).toMatchObject({
    type: "warned",
    message: expect.stringContaining("pid 42, 300 s: update t set a = 1; prepared it's, 90 s"),
    commands: ["SELECT pg_terminate_backend(42);", "ROLLBACK PREPARED 'it''s';"],
  });
});

test("each setting by which the server drops a slot is warned of, with the SQL that switches it off", () => {
  expect(checkWalRetention(quiet)).toMatchObject({ type: "passed" });
  const finding = (settings: Partial<ServerFacts>) => checkWalRetention({ ...quiet, ...settings });
  const keep = "ALTER SYSTEM SET max_slot_wal_keep_size = -1;";
  const idle = "ALTER SYSTEM SET idle_replication_slot_timeout = 0;";
  const reload = "SELECT pg_reload_conf();";
  expect(finding({ maxSlotWalKeepSize: "1GB" })).toMatchObject({ type: "warned", commands: [keep, reload] });
  expect(finding({ idleSlotTimeout: "1d" })).toMatchObject({
    type: "warned",
    commands: [idle, reload],
    message: expect.stringContaining("idle_replication_slot_timeout (1d)"),
  });
  expect(finding({ maxSlotWalKeepSize: "1GB", idleSlotTimeout: "1d" })).toMatchObject({
    commands: [keep, idle, reload],
  });
});

test("a release that loses changes of tables that are published is warned of, with the one to upgrade to", () => {
  const messageFor = (version: number) => {
    const finding = checkRelease({ ...quiet, version });
    return finding.type === "warned" ? finding.message : null;
  };
  for (const whole of [140_018, 150_013, 160_009, 170_005, 170_010, 180_000, 190_000])
    expect(messageFor(whole)).toBeNull();
  for (const losing of [140_017, 150_012, 160_008, 170_000, 170_004])
    expect(messageFor(losing)).not.toBeNull();
  expect(messageFor(160_008)).toContain("PostgreSQL 16.8 may leave out");
  expect(messageFor(160_008)).toContain("Upgrade the server to 16.10 or a later 16.");
});
