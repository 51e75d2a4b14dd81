import { expect, test } from "bun:test";
import { isCronExpression } from "../../../src/connector/config/cron-expression.ts";

test.each(["* * * * *", "*/15 0-6,22 1 jan-jun MON-FRI", "0 0 31 12 7", "5/10 * * * *", "  0  0\t* * 0 "])(
  "%s",
  (text) => expect(isCronExpression(text)).toBe(true),
);

test.each([
  "",
  "* * * *",
  "* * * * * *",
  "60 * * * *",
  "* 24 * * *",
  "* * 0 * *",
  "* * * 13 *",
  "* * * * 8",
  "*/0 * * * *",
  "5-1 * * * *",
  "1-2-3 * * * *",
  "1/2/3 * * * *",
  "a * * * *",
  "-1 * * * *",
  "1, * * * *",
  "@daily",
])("not %j", (text) => expect(isCronExpression(text)).toBe(false));
