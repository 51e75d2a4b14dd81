// Settings: flags win over the environment, and the environment over defaults. An open address requires authentication.

import { expect, test } from "bun:test";
import { resolve } from "node:path";
import { readSettings } from "../src/config.ts";
import { isLoopbackHost } from "../src/loopback.ts";

function refusal(action: () => unknown): { code: string; message: string } {
  try {
    action();
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("it was accepted");
}

test("the defaults listen only on this machine and keep the state in ./data", () => {
  expect(readSettings({}, {})).toEqual({
    host: "127.0.0.1",
    port: 3000,
    dataDirectory: resolve("data"),
    databaseUrl: null,
    encryptionKey: null,
    authentication: { basic: null, bearer: null },
    allowAnonymous: false,
    workerThreads: null,
    configFile: null,
    alerts: null,
    otlp: null,
    logLevel: "info",
    replicaId: null,
    replicaWeight: 1,
    leaseSeconds: 6,
    report: expect.any(Array),
  });
});

test("flags win over the environment, which wins over the defaults", () => {
  const environment = {
    MILLRACE_HOST: "localhost",
    MILLRACE_PORT: "4000",
    MILLRACE_DATA_DIR: "/from/environment",
    MILLRACE_LOG_LEVEL: "warn",
    MILLRACE_WORKER_THREADS: "3",
    DATABASE_URL: "postgres://user:secret@db/state",
    MILLRACE_API_TOKEN: "token",
    MILLRACE_USERNAME: "ada",
    MILLRACE_PASSWORD: "lovelace",
  };
  const fromEnvironment = readSettings({}, environment);
  expect(fromEnvironment).toMatchObject({
    host: "localhost",
    port: 4000,
    dataDirectory: "/from/environment",
  });
  expect(fromEnvironment).toMatchObject({
    databaseUrl: environment.DATABASE_URL,
    logLevel: "warn",
    workerThreads: 3,
  });
  expect(fromEnvironment.authentication).toEqual({
    basic: { username: "ada", password: "lovelace" },
    bearer: { token: "token" },
  });
  const flags = { host: "::1", port: "0", dataDir: "/from/flag", logLevel: "debug" };
  const expected = { host: "::1", port: 0, dataDirectory: "/from/flag", logLevel: "debug" } as const;
  expect(readSettings(flags, environment)).toMatchObject(expected);
});

test("an empty variable counts as absent", () => {
  expect(readSettings({}, { DATABASE_URL: "", MILLRACE_API_TOKEN: " " })).toEqual(readSettings({}, {}));
});

test("an open address without authentication is refused, and the message names the settings", () => {
  for (const host of ["0.0.0.0", "::", "192.168.1.5", "db.example.com", "127.0.0.1.example.com"]) {
    const { code, message } = refusal(() => readSettings({ host }, {}));
    expect(code).toBe("invalid_setting");
    for (const name of ["MILLRACE_API_TOKEN", "MILLRACE_USERNAME", "MILLRACE_ALLOW_ANONYMOUS=1"]) {
      expect(message).toContain(name);
    }
  }
  const open = { host: "0.0.0.0" };
  expect(readSettings(open, { MILLRACE_API_TOKEN: "token" }).host).toBe("0.0.0.0");
  expect(readSettings(open, { MILLRACE_USERNAME: "a", MILLRACE_PASSWORD: "b" }).host).toBe("0.0.0.0");
  expect(readSettings(open, { MILLRACE_ALLOW_ANONYMOUS: "1" }).host).toBe("0.0.0.0");
  expect(refusal(() => readSettings(open, { MILLRACE_ALLOW_ANONYMOUS: "0" })).code).toBe("invalid_setting");
});

test("a user name without a password, or the reverse, is refused", () => {
  expect(refusal(() => readSettings({}, { MILLRACE_USERNAME: "ada" })).message).toContain(
    "MILLRACE_PASSWORD",
  );
  expect(refusal(() => readSettings({}, { MILLRACE_PASSWORD: "x" })).message).toContain("MILLRACE_USERNAME");
});

test("credentials that may only read, in any combination beside those that may write", () => {
  const token = { MILLRACE_READ_TOKEN: "read" };
  const user = { MILLRACE_READ_USERNAME: "eyes", MILLRACE_READ_PASSWORD: "p" };
  const basic = { username: "eyes", password: "p" };
  for (const full of [{ MILLRACE_API_TOKEN: "t" }, { MILLRACE_USERNAME: "ada", MILLRACE_PASSWORD: "p" }]) {
    const readOnly = (environment: object) =>
      readSettings({ host: "0.0.0.0" }, { ...full, ...environment }).authentication.readOnly;
    expect(readOnly({})).toBeUndefined();
    expect(readOnly(token)).toEqual({ basic: null, bearer: { token: "read" } });
    expect(readOnly(user)).toEqual({ basic, bearer: null });
    expect(readOnly({ ...token, ...user })).toEqual({ basic, bearer: { token: "read" } });
    for (const half of [{ MILLRACE_READ_USERNAME: "planted" }, { MILLRACE_READ_PASSWORD: "planted" }]) {
      const { code, message } = refusal(() => readOnly(half));
      expect([code, message.includes("planted")]).toEqual(["invalid_setting", false]);
      expect(message).toContain("MILLRACE_READ_USERNAME and MILLRACE_READ_PASSWORD belong together");
    }
    expect(refusal(() => readOnly({ MILLRACE_READ_TOKEN: "a b" })).message).toContain("MILLRACE_READ_TOKEN");
    expect(refusal(() => readOnly({ ...user, MILLRACE_READ_USERNAME: "a:b" })).message).toContain("colon");
  }
});

test("credentials that may only read are not all that there is, and not those that may write", () => {
  const user = { MILLRACE_READ_USERNAME: "planted", MILLRACE_READ_PASSWORD: "planted" };
  const token = { MILLRACE_READ_TOKEN: "planted" };
  const same = { MILLRACE_USERNAME: "planted", MILLRACE_PASSWORD: "planted" };
  const alone = [token, user, { ...token, MILLRACE_ALLOW_ANONYMOUS: "1" }];
  for (const environment of alone) {
    expect(refusal(() => readSettings({}, environment)).message).toContain("nobody could change anything");
  }
  for (const environment of [
    { ...token, MILLRACE_API_TOKEN: "planted" },
    { ...user, ...same },
    { ...user, ...same, MILLRACE_API_TOKEN: "t" },
  ]) {
    const { code, message } = refusal(() => readSettings({}, environment));
    expect(code).toBe("invalid_setting");
    expect(message).toContain("the same");
    expect(message).not.toContain("planted");
  }
  const otherPassword = { ...user, ...same, MILLRACE_PASSWORD: "other" };
  expect(readSettings({}, otherPassword).authentication.readOnly).toBeDefined();
});

test("a token with characters that headers do not allow is refused", () => {
  for (const token of ["a b", "t€", "a\u0001"]) {
    expect(() => readSettings({}, { MILLRACE_API_TOKEN: token })).toThrow("visible ASCII");
  }
});

test("the message for an invalid value does not repeat it", () => {
  const wrong = [
    { DATABASE_URL: "mysql://user:planted@db/state" },
    { DATABASE_URL: "planted" },
    { MILLRACE_PORT: "planted" },
    { MILLRACE_PORT: "65536" },
    { MILLRACE_PORT: "-1" },
    { MILLRACE_PORT: "tcp://planted:3000" },
    { MILLRACE_LOG_LEVEL: "planted" },
    { MILLRACE_WORKER_THREADS: "planted" },
    { MILLRACE_WORKER_THREADS: "0" },
    { MILLRACE_WORKER_THREADS: "-1" },
    { MILLRACE_WEBHOOK_EGRESS: "planted" },
  ];
  for (const environment of wrong) {
    const { code, message } = refusal(() => readSettings({}, environment));
    expect(code).toBe("invalid_setting");
    expect(message).not.toContain("planted");
  }
});

test("a port that Kubernetes has set for a Service is told from one that somebody mistyped", () => {
  const linked = refusal(() => readSettings({}, { MILLRACE_PORT: "tcp://10.96.0.7:3000" }));
  expect(linked).toMatchObject({
    code: "invalid_setting",
    message: expect.stringContaining("enableServiceLinks: false"),
  });
  expect(refusal(() => readSettings({}, { MILLRACE_PORT: "3000x" })).message).not.toContain("Kubernetes");
});

test("loopback addresses are those that other machines cannot reach", () => {
  for (const host of [
    "127.0.0.1",
    "127.8.8.8",
    "::1",
    "[::1]",
    "localhost",
    "LOCALHOST",
    "::ffff:127.0.0.1",
  ]) {
    expect(isLoopbackHost(host)).toBe(true);
  }
  for (const host of ["0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "localhost.example.com", ""]) {
    expect(isLoopbackHost(host)).toBe(false);
  }
});

test("a replica's id is of plain characters", () => {
  expect(readSettings({}, { MILLRACE_REPLICA_ID: "eu-1.a_b" }).replicaId).toBe("eu-1.a_b");
  const weightless = { MILLRACE_REPLICA_WEIGHT: "0", MILLRACE_LEASE_SECONDS: "300" };
  const shared = { ...weightless, DATABASE_URL: "postgres://millrace@db/millrace" };
  expect(readSettings({}, shared)).toMatchObject({ replicaWeight: 0, leaseSeconds: 300 });
  expect(refusal(() => readSettings({}, weightless)).message).toStartWith(
    "MILLRACE_REPLICA_WEIGHT=0 needs DATABASE_URL",
  );
  for (const [name, value, bounds] of [
    ["MILLRACE_REPLICA_WEIGHT", "101", "from 0 to 100"],
    ["MILLRACE_REPLICA_WEIGHT", "-1", "from 0 to 100"],
    ["MILLRACE_LEASE_SECONDS", "0", "from 2 to 300"],
    ["MILLRACE_LEASE_SECONDS", "1.5", "from 2 to 300"],
    ["MILLRACE_LEASE_SECONDS", "3600", "from 2 to 300"],
  ] as const) {
    expect(refusal(() => readSettings({}, { [name]: value })).message).toBe(
      `${name} must be a number ${bounds}.`,
    );
  }
  for (const id of ["a b", "a/b", "x".repeat(65), "ä"]) {
    const { code, message } = refusal(() => readSettings({}, { MILLRACE_REPLICA_ID: id }));
    expect([code, message]).toEqual(["invalid_setting", expect.stringContaining("MILLRACE_REPLICA_ID")]);
  }
});
