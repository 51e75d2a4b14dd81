import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import {
  clientOptions,
  closeClient,
  connectPostgres,
  isEncrypted,
  withPostgres,
} from "../../src/connection/postgres-client.ts";
import type { PostgresConnection } from "../../src/connector/config/connection.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { enableTls } from "../support/servers/postgres-tls.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { testRootCertificate } from "../support/servers/tls-certificates.ts";
import { waitFor } from "../support/wait-for.ts";

let plain: PostgresServer;
let secured: PostgresServer;

beforeAll(async () => {
  [plain, secured] = await Promise.all([
    PostgresServer.start(),
    PostgresServer.start({
      settings: { listen_addresses: "localhost" },
      hba: [
        "hostnossl all only_plain all trust",
        "hostssl all only_tls all trust",
        "host all login all scram-sha-256",
        "host all postgres all trust",
      ],
    }),
  ]);
  await enableTls(secured);
  await secured.query("create role only_plain login");
  await secured.query("create role only_tls login");
  await secured.query("create role login login password 'right'");
});

afterAll(async () => {
  await plain[Symbol.asyncDispose]();
  await secured[Symbol.asyncDispose]();
});

function connectionTo(server: PostgresServer, change: Partial<PostgresConnection> = {}): PostgresConnection {
  return {
    ...server.connection(),
    ssl_mode: "Prefer",
    max_pool_size: 0,
    operation_lock_timeout_seconds: 0,
    ...change,
  };
}

const signal = () => AbortSignal.timeout(20_000);

test("a walsender waits for transactions however short operation_lock_timeout_seconds is", async () => {
  const connection = connectionTo(plain, { operation_lock_timeout_seconds: 3 });
  const timeouts: unknown[] = [];
  for (const purpose of ["control", "replication"] as const) {
    const client = await connectPostgres(connection, purpose, signal(), "source");
    timeouts.push((await client.query("show lock_timeout")).rows[0].lock_timeout);
    await closeClient(client);
  }
  expect(timeouts).toEqual(["3s", "0"]);
});

/** Whether the connection uses TLS, or the error's code. */
async function attempt(connection: PostgresConnection): Promise<boolean | string> {
  try {
    const client = await connectPostgres(connection, "catalog", signal(), "source");
    const encrypted = isEncrypted(client);
    await closeClient(client);
    return encrypted;
  } catch (error) {
    if (!(error instanceof MillraceError)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

describe("ssl_mode", () => {
  const local = (change: Partial<PostgresConnection>) =>
    connectionTo(secured, { host: "localhost", ...change });

  test("Disable does not use TLS, even if the server supports it", async () => {
    expect(await attempt(local({ ssl_mode: "Disable" }))).toBe(false);
    expect(await attempt(local({ ssl_mode: "Disable", user: "only_tls" }))).toStartWith("source_auth");
  });

  test("Prefer uses TLS if it can, and a plain connection otherwise", async () => {
    expect(await attempt(local({ ssl_mode: "Prefer" }))).toBe(true);
    expect(await attempt(connectionTo(plain, { ssl_mode: "Prefer" }))).toBe(false);
    expect(await attempt(local({ ssl_mode: "Prefer", user: "only_plain" }))).toBe(false);
  });

  test("Prefer retries TLS later, unless a plain connection is refused", async () => {
    await plain.query("create role only_tls login");
    await using proxy = await TcpProxy.start(plain.port);
    const connection = connectionTo(plain, { port: proxy.port, user: "only_tls" });
    expect(await attempt(connection)).toBe(false);
    const { accepted } = proxy;
    expect(await attempt(connection)).toBe(false);
    expect(proxy.accepted - accepted).toBe(1);
    proxy.targetPort = secured.port;
    expect(await attempt(connection)).toBe(true);
  });

  test("Require uses TLS and does not check the name", async () => {
    expect(await attempt(local({ ssl_mode: "Require" }))).toBe(true);
    expect(await attempt(connectionTo(plain, { ssl_mode: "Require" }))).toContain("does not offer TLS");
    expect(await attempt(local({ ssl_mode: "Require", ssl_root_cert: testRootCertificate }))).toBe(true);
  });

  test("VerifyCa requires a trusted root, whatever the name", async () => {
    const trusted = { ssl_mode: "VerifyCa", ssl_root_cert: testRootCertificate } as const;
    expect(await attempt(local(trusted))).toBe(true);
    expect(await attempt(local({ ...trusted, host: "127.0.0.1" }))).toBe(true);
    expect(await attempt(local({ ssl_mode: "VerifyCa" }))).toContain("not signed by a root");
  });

  test("VerifyFull also checks the name", async () => {
    const trusted = { ssl_mode: "VerifyFull", ssl_root_cert: testRootCertificate } as const;
    expect(await attempt(local(trusted))).toBe(true);
    expect(await attempt(local({ ...trusted, host: "127.0.0.1" }))).toContain("another host name");
    expect(await attempt(local({ ssl_mode: "VerifyFull" }))).toContain("not signed by a root");
  });

  test("a client made from the options alone uses TLS as configured", () => {
    expect(clientOptions(local({ ssl_mode: "Prefer" }), "replication", false).ssl).toBe(false);
    expect(clientOptions(local({ ssl_mode: "Prefer" }), "replication", true).ssl).toEqual({
      rejectUnauthorized: false,
    });
  });
});

test("all sessions print values the same way", async () => {
  const settings = await withPostgres(
    connectionTo(plain, { operation_lock_timeout_seconds: 3 }),
    "apply",
    signal(),
    "sink",
    async (client) => {
      await client.query("create temporary table probe (d date)");
      const { rows } = await client.query<{ name: string; setting: string }>(
        `select name, current_setting(name) as setting from pg_settings where name = any ($1) order by name collate "C"`,
        [
          [
            "DateStyle",
            "IntervalStyle",
            "TimeZone",
            "extra_float_digits",
            "bytea_output",
            "lc_monetary",
            "xmloption",
            "array_nulls",
            "quote_all_identifiers",
            "standard_conforming_strings",
            "client_encoding",
            "search_path",
            "lock_timeout",
            "statement_timeout",
            "application_name",
            "default_transaction_isolation",
          ],
        ],
      );
      return Object.fromEntries(rows.map((row) => [row.name, row.setting]));
    },
  );
  expect(settings).toEqual({
    DateStyle: "ISO, MDY",
    IntervalStyle: "postgres",
    TimeZone: "UTC",
    application_name: "millrace apply",
    array_nulls: "on",
    bytea_output: "hex",
    client_encoding: "UTF8",
    default_transaction_isolation: "read committed",
    extra_float_digits: "3",
    lc_monetary: "C",
    lock_timeout: "3s",
    quote_all_identifiers: "off",
    search_path: "",
    standard_conforming_strings: "on",
    statement_timeout: "0",
    xmloption: "content",
  });
});

test.each([
  ["apply", "0"],
  ["replication", "0"],
  ["copy", "1min"],
  ["snapshot", "1min"],
] as const)("a session for %s may be idle for %s", async (purpose, limit) => {
  const show = "show idle_session_timeout";
  const { rows } = await withPostgres(connectionTo(plain), purpose, signal(), "sink", (client) =>
    client.query(show),
  );
  expect(rows).toEqual([{ idle_session_timeout: limit }]);
});

describe("failures", () => {
  test("contain the cause, and no credentials", async () => {
    const wrong = { host: "localhost", user: "login", password: "sesame-42" };
    const said = await attempt(connectionTo(secured, wrong));
    expect(said).toStartWith("source_authentication_failed");
    expect(said).not.toMatch(/sesame|localhost|login/);
    expect(await attempt(connectionTo(secured, { ...wrong, password: "" }))).toStartWith(
      "source_authentication",
    );
    expect(await attempt(connectionTo(plain, { database: "nowhere" }))).toContain("database does not exist");
    expect(await attempt(connectionTo(plain, { port: 1 }))).toStartWith("source_unreachable");
    expect(await attempt(connectionTo(plain, { host: "nowhere.invalid" }))).toContain("does not resolve");
  });

  test("the signal aborts a connect without an answer, and a running query", async () => {
    await using silent = createServer(() => {}).listen(0, "127.0.0.1");
    await waitFor("listening", () => silent.listening);
    const address = silent.address();
    const port = typeof address === "object" && address ? address.port : 0;
    const connecting = new AbortController();
    const pending = connectPostgres(connectionTo(plain, { port }), "catalog", connecting.signal, "source");
    connecting.abort(new Error("enough"));
    expect(pending).rejects.toThrow("enough");

    const running = new AbortController();
    const sleeping = withPostgres(connectionTo(plain), "catalog", running.signal, "source", (client) => {
      setTimeout(() => running.abort(new Error("enough")), 100);
      return client.query("select pg_sleep(60)");
    });
    expect(sleeping).rejects.toThrow("enough");
    await Promise.allSettled([pending, sleeping]);
  });
});
