// The doctor's findings on a disk, a clock and a status, which tests cannot break at will.

import { expect, test } from "bun:test";
import { examineDisk, judgeDisk } from "../../src/doctor/disk-space.ts";
import { parkedFindings, statusFindings } from "../../src/doctor/status-findings.ts";
import { validationFindings } from "../../src/doctor/validation-findings.ts";
import { judgeClock } from "../../src/source/postgres/checks/source-findings.ts";

const gigabyte = 1024 ** 3;

test("a disk with little free space is a warning, a full or missing one a failure", async () => {
  expect(judgeDisk("/d", 2 * gigabyte).severity).toBe("ok");
  expect(judgeDisk("/d", 1.99 * gigabyte)).toMatchObject({ severity: "warning", commands: ["df -h '/d'"] });
  expect(judgeDisk("/it's", 0.2 * gigabyte)).toMatchObject({
    severity: "failed",
    commands: ["df -h '/it'\\''s'"],
  });
  expect((await examineDisk("/")).finding).toContain("GB are free");
  // Where both the state and the key are elsewhere, the directory need not be there.
  expect(await examineDisk(null)).toMatchObject({ about: "disk", severity: "ok" });
  expect(await examineDisk("/nowhere/at/all")).toMatchObject({
    severity: "failed",
    commands: ["ls -ld '/nowhere/at/all'"],
  });
});

test("a clock is off only by what the round trip does not explain", () => {
  expect(judgeClock(1_000_500, 1_000_000, 1_001_000).severity).toBe("ok");
  expect(judgeClock(998_500, 1_000_000, 1_000_010).severity).toBe("ok");
  const ahead = judgeClock(1_073_010, 1_000_000, 1_000_010);
  expect(ahead).toMatchObject({
    severity: "warning",
    commands: ["timedatectl set-ntp true", "timedatectl status"],
  });
  expect(ahead.finding).toContain("73.0 s ahead of");
  expect(judgeClock(990_000, 1_000_000, 1_000_010).finding).toContain("10.0 s behind");
});

test("a status that has failed, retries, warns, or lags", () => {
  const state = { realtime: { name: "s" } };
  const found = (status: object, more: object = {}) =>
    statusFindings("orders", { state, status, ...more } as Parameters<typeof statusFindings>[1]);
  expect(found({ failed: { reason: "Gone." } })).toEqual([
    {
      about: "status",
      severity: "failed",
      finding: "It has stopped in realtime: Gone.",
      commands: ["millrace connectors start orders"],
    },
  ]);
  expect(found({ retry: { attempt: 3, reason: "Away." } })).toMatchObject([{ severity: "failed" }]);
  expect(found({ warning: { reason: "Soon." } })).toMatchObject([{ severity: "warning", finding: "Soon." }]);
  expect(found({ heartbeat: {} })).toMatchObject([{ severity: "ok" }]);
  const progress = { lag_seconds: 75.2 };
  expect(found({ heartbeat: {} }, { progress })).toMatchObject([
    { severity: "ok" },
    { severity: "warning", finding: expect.stringContaining("75 s behind") },
  ]);
});

test("a failed validation without a failed test is reported", () => {
  const events = [{ start: {} }, { failed: { reason: "The server did not answer within 60 s." } }];
  expect(validationFindings("sink", events)).toEqual([
    { about: "sink", severity: "failed", finding: "The server did not answer within 60 s.", commands: [] },
  ]);
});

test("what is parked is a warning, with the commands that show and empty it", () => {
  expect(parkedFindings("orders", undefined)).toEqual([]);
  expect(parkedFindings("orders", { messages: 0, bytes: 0 })).toEqual([]);
  expect(parkedFindings("orders", { messages: 2, bytes: 90 })).toMatchObject([
    { severity: "warning", commands: ["millrace parked list orders", "millrace parked retry orders"] },
  ]);
});
