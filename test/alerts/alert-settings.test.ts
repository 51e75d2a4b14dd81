import { expect, test } from "bun:test";
import { readSettings } from "../../src/config.ts";

const url = "https://hooks.example.com/services/T0/B0/planted";
const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

test("alerts are off without an address, and need no secret", () => {
  expect(readSettings({}, { MILLRACE_ALERT_URL: "" }).alerts).toBeNull();
  expect(readSettings({}, { MILLRACE_ALERT_URL: url }).alerts).toEqual({ url, secret: null });
  const both = { MILLRACE_ALERT_URL: url, MILLRACE_ALERT_SECRET: secret };
  expect(readSettings({}, both).alerts).toEqual({ url, secret });
});

test.each([
  [{ MILLRACE_ALERT_URL: "hooks.example.com/planted" }, "MILLRACE_ALERT_URL must be"],
  [{ MILLRACE_ALERT_URL: "ftp://hooks.example.com/planted" }, "MILLRACE_ALERT_URL must be"],
  [{ MILLRACE_ALERT_URL: "https://me:planted@hooks.example.com/" }, "MILLRACE_ALERT_URL must be"],
  [{ MILLRACE_ALERT_URL: "https://hooks.example.com/#planted" }, "MILLRACE_ALERT_URL must be"],
  [{ MILLRACE_ALERT_URL: "https://:planted/" }, "MILLRACE_ALERT_URL must be"],
  [{ MILLRACE_ALERT_URL: url, MILLRACE_ALERT_SECRET: "planted" }, "MILLRACE_ALERT_SECRET must be whsec_"],
  [{ MILLRACE_ALERT_SECRET: secret }, "MILLRACE_ALERT_SECRET signs what goes to MILLRACE_ALERT_URL"],
])("%j is refused by its name, without its value", (environment, message) => {
  const read = () => readSettings({}, environment);
  expect(read).toThrow(
    expect.objectContaining({ code: "invalid_setting", message: expect.stringContaining(message) }),
  );
  expect(read).not.toThrow(/planted/);
});
