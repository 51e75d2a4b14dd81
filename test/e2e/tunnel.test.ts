// A connector whose databases are both behind SSH servers: made through the API of the compiled program, with a key that the
// API made, it carries on while the SSH server restarts in the middle of the stream.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectorConfig } from "../../src/connector/connector.ts";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { bringKey } from "../support/servers/ssh-keys.ts";
import { sshServerKinds, startSshServer } from "../support/servers/ssh-server.ts";
import { waitFor } from "../support/wait-for.ts";

interface KeyPair {
  readonly private_key: string;
  readonly public_key: string;
}

let server: PostgresServer;
let service: ServiceProcess;
let directory: string;
let api: ApiClient;

beforeAll(async () => {
  const binary = await compiledBinary();
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  directory = await mkdtemp(join(tmpdir(), "millrace-e2e-"));
  service = await ServiceProcess.start({
    command: [binary],
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
    environment: { MILLRACE_LOG_LEVEL: "debug" },
  });
  api = new ApiClient(service.url);
}, 120_000);

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

describe.each([...sshServerKinds])("through %s", (kind) => {
  test("from a generated key to a row, over a restart of the SSH server", async () => {
    const key = await api.call<KeyPair>("POST", "/api/v1/ssh-keys");
    await using ssh = await startSshServer(kind, key.public_key);
    const id = `tunnel_${kind}`;
    await server.createDatabase(`${id}_source`);
    await server.createDatabase(`${id}_sink`);
    await server.query("create table t (id int primary key generated always as identity)", `${id}_source`);
    await server.query("insert into t select from generate_series(1, 1000)", `${id}_source`);
    const auth = { generated_key: key };
    const tunnel = { ssh: { bastion_host: "127.0.0.1", bastion_port: ssh.port, user: ssh.user, auth } };
    const at = (database: string) => ({ ...server.connection(`${id}_${database}`), tunnel });
    const source = { postgres: { connection: at("source"), replication_type: { logical_replication: {} } } };
    const sink = { postgres: { connection: at("sink") } };

    const [events] = await Promise.all([
      api.call<object[]>("POST", "/api/v1/validate/source", { source }),
      api.call<object[]>("POST", "/api/v1/validate/sink", { sink }),
    ]);
    expect(events.at(-1)).toEqual({ success: {} });
    await api.createConnector(id, { source, sink });
    const count = async (database: string) => {
      const [row] = await server.query<{ n: number }>(
        "select count(*)::int as n from t",
        `${id}_${database}`,
      );
      return row?.n;
    };
    await waitFor("the copy", async () => (await count("sink")) === 1000);
    expect(ssh.logins).toBeGreaterThan(3);

    let isOver = false;
    const loading = (async () => {
      while (!isOver) await server.query("insert into t select from generate_series(1, 20)", `${id}_source`);
    })();
    await waitFor("changes travel", async () => ((await count("sink")) ?? 0) > 1500);
    await ssh.stop();
    await waitFor("the status says so", async () => {
      const { status } = await api.connector(id);
      return status.status.retry?.reason.includes(`:${server.port} through 127.0.0.1:${ssh.port}: `);
    });
    await ssh.launch();
    isOver = true;
    await loading;
    const wanted = await count("source");
    await waitFor("nothing is lost", async () => (await count("sink")) === wanted);

    const shown = await api.call<{ connector: ConnectorConfig }>("GET", `/api/v1/connectors/${id}`);
    expect(shown.connector.source.postgres?.connection.tunnel?.ssh?.auth).toEqual({
      generated_key: { private_key: "***", public_key: key.public_key },
    });
    await api.deleteConnector(id);
    await waitFor("it is gone", async () => !(await api.exists(id)));
    const body = key.private_key.split("\n").slice(1, -2);
    for (const line of body) expect(service.log).not.toContain(line);
  });
});

test("a key with a passphrase is refused with the request", async () => {
  const auth = { bring_your_own_key: { private_key: bringKey("ed25519", "sesame").privateKey } };
  const ssh = { bastion_host: "127.0.0.1", user: "u", auth };
  const connection = { ...server.connection(), tunnel: { ssh } };
  const source = { postgres: { connection, replication_type: { logical_replication: {} } } };
  const response = await api.request("POST", "/api/v1/connectors/locked", {
    id: "locked",
    source,
    sink: { postgres: { connection: server.connection() } },
  });
  expect(response.status).toBe(422);
  expect(await response.json()).toMatchObject({
    code: "invalid_request",
    errors: [{ path: "/source/postgres/connection/tunnel/ssh/auth/bring_your_own_key/private_key" }],
  });
});
