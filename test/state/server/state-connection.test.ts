// The meaning of a DATABASE_URL: `sslmode` as in libpq, against servers with and without TLS.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { stateConnection } from "../../../src/state/server/state-connection.ts";
import { StateSession } from "../../../src/state/server/state-session.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { enableTls } from "../../support/servers/postgres-tls.ts";
import { testRootCertificate } from "../../support/servers/tls-certificates.ts";

let plain: PostgresServer;
let tls: PostgresServer;
let root: string;
beforeAll(async () => {
  [plain, tls] = await Promise.all([PostgresServer.start(), PostgresServer.start()]);
  await enableTls(tls);
  root = join(tls.directory, "state-root.crt");
  await Bun.write(root, testRootCertificate);
});
afterAll(async () => {
  await plain[Symbol.asyncDispose]();
  await tls[Symbol.asyncDispose]();
});

/** Whether the session uses TLS, or why there is no session. */
async function sessionOf(
  server: PostgresServer,
  host: string,
  parameters: string,
): Promise<boolean | string> {
  try {
    const config = await stateConnection(`postgres://postgres@${host}:${server.port}/postgres?${parameters}`);
    await using session = await StateSession.open(config, { name: "test", answerMs: 10_000 });
    const [row] = await session.run(
      async (sql) => await sql<{ ssl: boolean }[]>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`,
    );
    return row?.ssl ?? "unknown";
  } catch (error) {
    return String(error);
  }
}

const refusedPlain = "does not support SSL";
const untrusted = /certificate|issuer/;

test.each([
  ["", false, false],
  ["sslmode=disable", false, false],
  ["sslmode=prefer", true, false],
  ["sslmode=require", true, refusedPlain],
  ["sslmode=verify-full", untrusted, refusedPlain],
  ["sslmode=verify-ca", /sslrootcert/, /sslrootcert/],
])("%s", async (parameters, withTls, without) => {
  for (const [server, expected] of [
    [tls, withTls],
    [plain, without],
  ] as const) {
    const found = await sessionOf(server, "localhost", parameters);
    if (typeof expected === "boolean") expect(found).toBe(expected);
    else expect(found).toMatch(expected);
  }
});

test("a root certificate is used, and names are verified where requested", async () => {
  const withRoot = (mode: string) => `sslmode=${mode}&sslrootcert=${encodeURIComponent(root)}`;
  for (const mode of ["require", "verify-ca", "verify-full"]) {
    expect(await sessionOf(tls, "localhost", withRoot(mode))).toBe(true);
  }
  // The certificate is for `localhost`.
  expect(await sessionOf(tls, "127.0.0.1", withRoot("verify-ca"))).toBe(true);
  expect(await sessionOf(tls, "127.0.0.1", withRoot("verify-full"))).toMatch(
    /127\.0\.0\.1|altnames|identity/i,
  );
  expect(await sessionOf(tls, "localhost", "sslmode=require&sslrootcert=/nowhere.crt")).toContain("ENOENT");
});

test("user and password may contain any character, and a socket's directory may be the host", async () => {
  const config = await stateConnection("postgres://us%40er:p%3Aa%2Fss@db.internal/state%20one");
  expect(config).toMatchObject({
    host: "db.internal",
    user: "us@er",
    password: "p:a/ss",
    database: "state one",
  });
  expect((await stateConnection("postgres:///state?host=/var/run/postgresql&user=me")).host).toBe(
    "/var/run/postgresql",
  );
});
