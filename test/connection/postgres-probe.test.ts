// The names that a validation resolves before it connects.

import { expect, test } from "bun:test";
import { probePostgres } from "../../src/connection/postgres-probe.ts";
import { ValidationLog } from "../../src/connection/validation-log.ts";
import type { PostgresConnection } from "../../src/connector/config/connection.ts";
import { fullConnection } from "../support/api/connector-config.ts";
import { findTest } from "../support/api/validation-events.ts";

const database = { host: "database.internal", port: 5432, user: "u", password: "p", database: "d" };
const direct = fullConnection(database);
const tunnelled = fullConnection(database, {
  tunnel: {
    ssh: {
      bastion_host: "first.internal",
      bastion_port: 22,
      user: "u",
      bastion_alternates: ["second.internal"],
      auth: { bring_your_own_key: { private_key: "unused" } },
    },
  },
});

const silent = () => new Promise<never>(() => {});

async function resolution(connection: PostgresConnection, signal: AbortSignal) {
  const log = new ValidationLog();
  await probePostgres(connection, "source", signal, log, async () => {}, silent);
  return findTest(log.finish(), "DnsResolution").status;
}

test("a name server that never answers fails the test in time", async () => {
  const began = performance.now();
  const signal = AbortSignal.timeout(60_000);
  expect(await resolution(direct, signal)).toEqual({
    Failed: { reason: "The name server did not answer in time." },
  });
  expect(performance.now() - began).toBeLessThan(9_000);
});

test("nor does a validation wait for the SSH servers' names", async () => {
  const began = performance.now();
  const signal = AbortSignal.timeout(60_000);
  expect(await resolution(tunnelled, signal)).toEqual({
    Failed: { reason: "The SSH server's host name does not resolve." },
  });
  expect(performance.now() - began).toBeLessThan(9_000);
});

test("the validation's signal ends the wait for a name", async () => {
  await expect(resolution(direct, AbortSignal.abort(new Error("over")))).rejects.toThrow("over");
});
