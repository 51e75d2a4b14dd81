// Every authentication of a server and of a client, on every connection of a connector: control sessions, the stream
// and the copies at the source, and both kinds of sessions at the sink.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeClient, connectPostgres } from "../../src/connection/postgres-client.ts";
import type { PostgresConnection } from "../../src/connector/config/connection.ts";
import { toMillraceError } from "../../src/errors/millrace-error.ts";
import { fullConnection } from "../support/api/connector-config.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { LiveRun } from "../support/runtime/live-run.ts";
import { CertificateAuthority } from "../support/servers/certificate-authority.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { enableTls } from "../support/servers/postgres-tls.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";

const authority = new CertificateAuthority("right root");
const stranger = new CertificateAuthority("wrong root");
const client = authority.issue({ commonName: "certified" });

const hba = [
  "hostssl all certified all trust clientcert=verify-full",
  "hostssl all only_tls all trust",
  "host all scram,many_iterations,too_many_iterations all scram-sha-256",
  "host all md5 all md5",
  "host all postgres all trust",
];
const roles = `
  create role certified superuser login;
  create role only_tls superuser login;
  create role scram superuser login password 'right';
  set scram_iterations = 600000;
  create role many_iterations superuser login password 'right';
  set scram_iterations = 2000001;
  create role too_many_iterations superuser login password 'right';
  set password_encryption = 'md5';
  create role md5 superuser login password 'right'`;

let secured: PostgresServer;
let plain: PostgresServer;

beforeAll(async () => {
  const settings = { listen_addresses: "localhost", fsync: "off" };
  [secured, plain] = await Promise.all([
    PostgresServer.start({ settings, hba }),
    PostgresServer.start({ settings, hba }),
  ]);
  const leaf = authority.issue({ commonName: "localhost", dnsName: "localhost" });
  await enableTls(secured, { ...leaf, clientRoot: authority.root });
  await secured.query(roles);
  await plain.query(roles);
});
afterAll(async () => {
  await secured[Symbol.asyncDispose]();
  await plain[Symbol.asyncDispose]();
});

type Change = Partial<PostgresConnection>;

async function outcome(server: PostgresServer, change: Change): Promise<string> {
  const connection = fullConnection({ ...server.connection(), host: "localhost" }, change);
  try {
    await closeClient(await connectPostgres(connection, "control", AbortSignal.timeout(20_000), "sink"));
    return "connected";
  } catch (error) {
    const { code, message } = toMillraceError(error);
    return `${code}: ${message}`;
  }
}

let count = 0;

/** Copies one row and streams another. `change` modifies both connections. */
async function carries(server: PostgresServer, change: Change): Promise<void> {
  const name = `tls_${++count}`;
  const at = (side: string) =>
    fullConnection({ ...server.connection(`${name}_${side}`), host: "localhost" }, change);
  const options = { source: { connection: at("source") }, sink: { connection: at("sink") } };
  await using rig = await PipelineRig.create(server, name, options);
  await rig.source("create table t (id int primary key); insert into t values (1)");
  rig.start();
  await rig.untilRealtime();
  await rig.source("insert into t values (2)");
  await rig.expectEqual();
  await rig.stop();
}

const trusted = { ssl_root_cert: authority.root } as const;
const certified = { user: "certified", ssl_cert: client.certificate, ssl_key: client.key } as const;

describe("a complete connector", () => {
  test.each([
    ["Disable", { ssl_mode: "Disable" }],
    ["Prefer", { ssl_mode: "Prefer", user: "only_tls" }],
    ["Require", { ssl_mode: "Require", user: "only_tls" }],
    ["Require with a root", { ssl_mode: "Require", user: "only_tls", ...trusted }],
    ["VerifyCa", { ssl_mode: "VerifyCa", user: "only_tls", ...trusted }],
    ["VerifyFull", { ssl_mode: "VerifyFull", user: "only_tls", ...trusted }],
    ["VerifyFull and a client certificate", { ssl_mode: "VerifyFull", ...trusted, ...certified }],
    ["SCRAM", { ssl_mode: "Require", user: "scram", password: "right" }],
    ["SCRAM, 600,000 iterations", { ssl_mode: "Require", user: "many_iterations", password: "right" }],
    ["MD5", { ssl_mode: "Require", user: "md5", password: "right" }],
  ] as const)("%s", async (_, change) => {
    await carries(secured, change);
  });

  test("Prefer, when the server has no TLS", async () => {
    await carries(plain, { ssl_mode: "Prefer", user: "scram", password: "right" });
  });
});

describe("refused", () => {
  const wrong = { ssl_root_cert: stranger.root } as const;
  test.each([
    ["Require with the wrong root", { ssl_mode: "Require", ...wrong }, "not signed by a root"],
    ["VerifyCa with the wrong root", { ssl_mode: "VerifyCa", ...wrong }, "not signed by a root"],
    ["VerifyFull with the wrong root", { ssl_mode: "VerifyFull", ...wrong }, "not signed by a root"],
    [
      "VerifyFull, another name",
      { ssl_mode: "VerifyFull", ...trusted, host: "127.0.0.1" },
      "another host name",
    ],
    ["no client certificate", { ssl_mode: "Require", user: "certified" }, "sink_authentication_failed"],
    [
      "another role's",
      { ssl_mode: "Require", ...certified, user: "only_cert" },
      "sink_authentication_failed",
    ],
    [
      "no password",
      { user: "scram", password: "" },
      "sink_authentication_failed: The server asks for a password, and the connection has none.",
    ],
    [
      "SCRAM, more iterations than the client will run",
      { user: "too_many_iterations", password: "right" },
      "sink_authentication_failed: The login failed: SASL: SCRAM-SERVER-FIRST-MESSAGE: iteration count 2000001 exceeds",
    ],
  ] as const)("%s", async (_, change, expected) => {
    expect(await outcome(secured, change)).toContain(expected);
  });

  test("a client certificate of an unknown authority", async () => {
    const { certificate, key } = stranger.issue({ commonName: "certified" });
    const said = await outcome(secured, {
      ssl_mode: "Require",
      ...certified,
      ssl_cert: certificate,
      ssl_key: key,
    });
    expect(said).not.toBe("connected");
    expect(said).toMatch(/^sink_/);
  });

  test.each(["Require", "VerifyCa", "VerifyFull"] as const)(
    "%s, where the server has no TLS",
    async (ssl_mode) => {
      expect(await outcome(plain, { ssl_mode, ...trusted })).toContain("does not offer TLS");
    },
  );

  test("an expired certificate, unless it is not verified", async () => {
    await using server = await PostgresServer.start({ settings: { listen_addresses: "localhost" } });
    const expired = authority.issue({ commonName: "localhost", dnsName: "localhost", validForDays: -1 });
    await enableTls(server, expired);
    for (const ssl_mode of ["VerifyCa", "VerifyFull"] as const) {
      expect(await outcome(server, { ssl_mode, ...trusted })).toContain("has expired");
    }
    expect(await outcome(server, { ssl_mode: "Require" })).toBe("connected");
  });
});

describe("a wrong password", () => {
  test.each([
    ["source", "scram"],
    ["source", "md5"],
    ["sink", "scram"],
    ["sink", "md5"],
  ] as const)("at the %s, by %s: sent once, and the run has failed", async (side, user) => {
    await using proxy = await TcpProxy.start(secured.port);
    const right = secured.connection();
    const wrong = { ...right, port: proxy.port, user, password: "sesame-42" };
    await using run = LiveRun.start({
      id: `wrong_${side}_${user}`,
      source: {
        postgres: {
          connection: side === "source" ? wrong : right,
          replication_type: { logical_replication: {} },
        },
      },
      sink: { postgres: { connection: side === "sink" ? wrong : right } },
    });
    const { error, health } = await run.untilFailed();
    expect(error).toMatchObject({ code: `${side}_authentication_failed`, retry: "permanent" });
    expect(run.failures.length).toBe(1);
    expect(proxy.accepted).toBe(1);
    expect(JSON.stringify(health)).toContain(`:${proxy.port}: `);
    expect(JSON.stringify(health)).not.toContain("sesame");
  });
});
