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
  ["http://169.254.1.1/planted", "is link-local, and nothing is sent there: set it to another address"],
  ["http://[fe80::1]/planted", "is link-local"],
  ["http://169.254.169.254/planted", "is link-local"],
  ["http://100.100.100.200/planted", "is a cloud's metadata service"],
])("%s is refused: no alert would be sent there", (address, message) => {
  const read = () => readSettings({}, { MILLRACE_ALERT_URL: address });
  expect(read).toThrow(`MILLRACE_ALERT_URL names an address that ${message}`);
  expect(read).not.toThrow(/planted/);
});

test.each([
  "http://127.0.0.1:9/x",
  "http://2130706433/x",
  "http://[::1]/x",
  "http://localhost/x",
  "http://10.0.0.1/x",
])("%s is refused where requests may go to public addresses alone", (address) => {
  expect(readSettings({}, { MILLRACE_ALERT_URL: address }).alerts?.url).toBe(address);
  const environment = { MILLRACE_ALERT_URL: address, MILLRACE_WEBHOOK_EGRESS: "public" };
  expect(() => readSettings({}, environment)).toThrow(
    /is not public \(.*set it to a public address, or unset MILLRACE_WEBHOOK_EGRESS/,
  );
  expect(readSettings({}, { ...environment, MILLRACE_ALERT_URL: url }).alerts?.url).toBe(url);
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
