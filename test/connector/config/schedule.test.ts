import { expect, test } from "bun:test";
import { isCronExpression } from "../../../src/connector/config/cron-expression.ts";
import { nextDue } from "../../../src/connector/config/schedule.ts";

const due = (expression: string, timezone: string, after: string) =>
  nextDue({ cron: { expression, timezone } }, new Date(after))?.toISOString() ?? null;

test("a rate counts from the start of the previous round", () => {
  const after = new Date("2026-03-28T23:50:00Z");
  const rates = {
    Minute: "2026-03-29T00:05:00.000Z",
    Hour: "2026-03-29T14:50:00.000Z",
    Day: "2026-04-12T23:50:00.000Z",
  };
  for (const [unit, expected] of Object.entries(rates)) {
    const rate = { value: 15, unit: unit as keyof typeof rates };
    expect(nextDue({ rate }, after)?.toISOString()).toBe(expected);
  }
});

test("a cron expression uses the calendar of its time zone, also where an hour is missing or repeated", () => {
  expect(due("*/5 * * * *", "UTC", "2026-03-28T12:00:00Z")).toBe("2026-03-28T12:05:00.000Z");
  expect(due("0 9 * * mon-fri", "Europe/Berlin", "2026-03-28T12:00:00Z")).toBe("2026-03-30T07:00:00.000Z");
  // 02:30 does not exist on that day, so the round starts at 03:00 local time.
  expect(due("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z")).toBe("2026-03-29T01:00:00.000Z");
  expect(due("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z")).toBe("2026-10-25T00:30:00.000Z");
  expect(due("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z")).toBe("2026-10-26T01:30:00.000Z");
  expect(due("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z")).toBe("2028-02-29T00:00:00.000Z");
  expect(due("0 0 31 2 *", "UTC", "2026-01-01T00:00:00Z")).toBeNull();
});

test("only expressions that can be due are accepted", () => {
  for (const text of [
    "* * * * *",
    "*/15 0-6,22 1 jan-jun MON-FRI",
    "0 0 31 12 7",
    "5/10 * * * *",
    "  0  0\t* * 0 ",
  ]) {
    expect(isCronExpression(text)).toBe(true);
    expect(due(text, "America/New_York", "2026-01-01T00:00:00Z")).not.toBeNull();
  }
});
