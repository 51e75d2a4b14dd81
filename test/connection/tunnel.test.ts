// Connections through SSH servers of every kind that this machine has.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket, connect as tlsConnect } from "node:tls";
import type { Client } from "pg";
import { newSshKeyPair } from "../../src/api/routes/ssh-key-pair.ts";
import {
  closeClient,
  connectPostgres,
  destroyClient,
  isEncrypted,
} from "../../src/connection/postgres-client.ts";
import { TunnelSocket } from "../../src/connection/tunnel-socket.ts";
import type { SshTunnel } from "../../src/connector/config/bastions.ts";
import type { PostgresConnection } from "../../src/connector/config/connection.ts";
import { toMillraceError } from "../../src/errors/millrace-error.ts";
import { validatePostgresSink } from "../../src/sink/postgres/checks/sink-validation.ts";
import { validatePostgresSource } from "../../src/source/postgres/checks/source-validation.ts";
import { fullConnection, postgresSink, postgresSource } from "../support/api/connector-config.ts";
import { findTest, outline } from "../support/api/validation-events.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { enableTls } from "../support/servers/postgres-tls.ts";
import { bringKey } from "../support/servers/ssh-keys.ts";
import { type SshServer, sshServerKinds, startSshServer } from "../support/servers/ssh-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import {
  testRootCertificate,
  testServerCertificate,
  testServerKey,
} from "../support/servers/tls-certificates.ts";
import { waitFor } from "../support/wait-for.ts";

const generated = newSshKeyPair();
let server: PostgresServer;

beforeAll(async () => {
  const sockets = { unix_socket_directories: "." };
  server = await PostgresServer.start({ settings: { listen_addresses: "localhost", ...sockets } });
  await enableTls(server);
});
afterAll(() => server[Symbol.asyncDispose]());

const signal = () => AbortSignal.timeout(30_000);

function tunnelTo(ssh: SshServer, change: Partial<SshTunnel> = {}): SshTunnel {
  return {
    bastion_host: "127.0.0.1",
    bastion_port: ssh.port,
    user: ssh.user,
    bastion_alternates: [],
    auth: { generated_key: generated },
    ...change,
  };
}

function connectionThrough(ssh: SshTunnel, change: Partial<PostgresConnection> = {}): PostgresConnection {
  return fullConnection({ ...server.connection(), host: "localhost" }, { tunnel: { ssh }, ...change });
}

async function use<T>(connection: PostgresConnection, action: (client: Client) => Promise<T>): Promise<T> {
  const client = await connectPostgres(connection, "catalog", signal(), "source");
  try {
    return await action(client);
  } finally {
    await closeClient(client);
  }
}

const one = (client: Client) => client.query("select 1 as one").then(({ rows }) => rows[0].one as number);

/** Code, retry and message of the failure. */
async function failure(connection: PostgresConnection): Promise<string> {
  const error = await use(connection, one).then(
    () => new Error("it connected"),
    (error: unknown) => error,
  );
  const { code, retry, message } = toMillraceError(error);
  return `${code} ${retry}: ${message}`;
}

describe.each([...sshServerKinds])("through %s", (kind) => {
  let ssh: SshServer;

  beforeAll(async () => {
    ssh = await startSshServer(kind, generated.public_key);
  });
  afterAll(() => ssh[Symbol.asyncDispose]());

  test("with a key from POST /ssh-keys", async () => {
    expect(await use(connectionThrough(tunnelTo(ssh)), one)).toBe(1);
  });

  test.each(["ed25519", "rsa", "ecdsa"] as const)("with a user's key: %s", async (type) => {
    const { privateKey, publicKey } = bringKey(type);
    await using other = await startSshServer(kind, publicKey);
    const auth = { bring_your_own_key: { private_key: privateKey } };
    expect(await use(connectionThrough(tunnelTo(other, { auth })), one)).toBe(1);
  });

  test("TLS goes through to the database, and checks its name", async () => {
    const full = { ssl_mode: "VerifyFull", ssl_root_cert: testRootCertificate } as const;
    const encrypted = async (client: Client) => isEncrypted(client);
    expect(await use(connectionThrough(tunnelTo(ssh), full), encrypted)).toBe(true);
    expect(await use(connectionThrough(tunnelTo(ssh), { ssl_mode: "Disable" }), encrypted)).toBe(false);
    const wrong = await failure(connectionThrough(tunnelTo(ssh), { ...full, host: "127.0.0.1" }));
    expect(wrong).toContain("another host name");
  });

  test("to a database's Unix socket at the SSH server", async () => {
    const host = `${server.directory}/data`;
    expect(await use(connectionThrough(tunnelTo(ssh), { host, ssl_mode: "Disable" }), one)).toBe(1);
  });

  test.each(["Disable", "Require"] as const)("large values both ways, ssl_mode %s", async (ssl_mode) => {
    await use(connectionThrough(tunnelTo(ssh), { ssl_mode }), async (client) => {
      const large = "x".repeat(20_000_000);
      const { rows } = await client.query("select $1::text || '!' as text", [large]);
      expect(rows[0].text === `${large}!`).toBe(true);
    });
  });

  test("alternates are tried in order, until one works", async () => {
    await using strange = await startSshServer(kind, newSshKeyPair().public_key);
    await using unused = await startSshServer(kind, generated.public_key);
    const others = [`127.0.0.1:${strange.port}`, `127.0.0.1:${ssh.port}`, `127.0.0.1:${unused.port}`];
    const before = ssh.logins;
    const tunnel = tunnelTo(ssh, { bastion_port: 1, bastion_alternates: others });
    expect(await use(connectionThrough(tunnel), one)).toBe(1);
    await waitFor("the login is counted", () => ssh.logins === before + 1);
    expect(unused.logins).toBe(0);
  });

  test("a refused key is a permanent error, and the message does not contain it", async () => {
    const other = bringKey("ed25519").privateKey;
    const auth = { bring_your_own_key: { private_key: other } };
    const said = await failure(connectionThrough(tunnelTo(ssh, { auth })));
    expect(said).toStartWith(
      "source_authentication_failed permanent: The SSH server refused the user or the key",
    );
    for (const line of other.split("\n").slice(1, -2)) expect(said).not.toContain(line);
    expect(await failure(connectionThrough(tunnelTo(ssh, { user: "stranger" })))).toStartWith(
      "source_authentication_failed permanent",
    );
  });

  test("transient errors are retried", async () => {
    const away = connectionThrough(tunnelTo(ssh, { bastion_port: 1 }));
    expect(await failure(away)).toBe(
      "source_unreachable transient: Nothing listens at the SSH server's host and port (ECONNREFUSED).",
    );
    const nowhere = connectionThrough(tunnelTo(ssh, { bastion_host: "nowhere.invalid" }));
    expect(await failure(nowhere)).toContain("transient: The SSH server's host name does not resolve.");
    const noDatabase = connectionThrough(tunnelTo(ssh), { port: 1 });
    expect(await failure(noDatabase)).toBe(
      "source_unreachable transient: The SSH server cannot reach the database's host and port.",
    );
    // One of the two refuses the key. The other may accept it when it is back.
    await using strange = await startSshServer(kind, newSshKeyPair().public_key);
    const mixed = tunnelTo(strange, { bastion_alternates: ["127.0.0.1:1"] });
    expect(await failure(connectionThrough(mixed))).toStartWith("source_unreachable transient: None of 2");
  });

  test("errors of the database pass through: a wrong password is reported as one", async () => {
    const missing = connectionThrough(tunnelTo(ssh), { database: "nowhere" });
    expect(await failure(missing)).toContain("The database does not exist");
  });

  test("the end of the SSH server ends the connection, and the error names the server", async () => {
    await using other = await startSshServer(kind, generated.public_key);
    const client = await connectPostgres(connectionThrough(tunnelTo(other)), "control", signal(), "sink");
    const sleeping = client.query("select pg_sleep(60)").catch((error: unknown) => error);
    await other.stop();
    expect(String(await sleeping)).toMatch(/SSH connection was lost|terminated/);
    await other.launch();
    expect(await use(connectionThrough(tunnelTo(other)), one)).toBe(1);
  });

  test("an aborted connection leaves nothing open, even while it is paused", async () => {
    await using proxy = await TcpProxy.start(ssh.port);
    const connection = connectionThrough(tunnelTo(ssh, { bastion_port: proxy.port }));
    for (const ssl_mode of ["Disable", "Require"] as const) {
      const client = await connectPostgres({ ...connection, ssl_mode }, "control", signal(), "sink");
      const reading = client.query("select repeat('x', 50000000)").catch(() => {});
      // library edge: pg does not type the connection below a client.
      (client as unknown as { connection: { stream: Socket } }).connection.stream.pause();
      await waitFor("the tunnel is up", () => proxy.open === 1);
      destroyClient(client);
      await reading;
      await waitFor("the tunnel is down", () => proxy.open === 0);
    }
  });

  test("validation uses the SSH server", async () => {
    const connection = connectionThrough(tunnelTo(ssh));
    const source = await validatePostgresSource(
      postgresSource(server.connection(), { connection }),
      signal(),
    );
    expect(outline(source).slice(0, 6)).toEqual([
      ...["start", "DnsResolution: Success", "Reachability: Success", "TLS: Success"],
      ...["Connection: Success", "Authentication: Warn"],
    ]);
    const sink = await validatePostgresSink(postgresSink(server.connection(), { connection }), signal());
    expect(outline(sink).at(-1)).toBe("success");

    const lost = { ...connection, port: 1 };
    const events = await validatePostgresSink(
      postgresSink(server.connection(), { connection: lost }),
      signal(),
    );
    expect(outline(events).slice(1, 4)).toEqual([
      ...["DnsResolution: Success", "Reachability: Failed", "TLS: Skipped"],
    ]);
    expect(findTest(events, "Reachability").status.Failed?.reason).toContain("cannot reach the database");
    const unknown = connectionThrough(tunnelTo(ssh, { bastion_host: "nowhere.invalid" }));
    const named = await validatePostgresSink(
      postgresSink(server.connection(), { connection: unknown }),
      signal(),
    );
    expect(findTest(named, "DnsResolution").status.Failed?.reason).toContain("SSH server");
  });
});

test("a silent bastion is noticed within seconds, and the reader gets the error", async () => {
  await using ssh = await startSshServer(sshServerKinds.at(-1) ?? "ssh2", generated.public_key);
  await using proxy = await TcpProxy.start(ssh.port);
  const connection = connectionThrough(tunnelTo(ssh, { bastion_port: proxy.port }));
  const client = await connectPostgres(connection, "control", signal(), "sink");
  const sleeping = client.query("select pg_sleep(60)").catch((error: unknown) => error);
  proxy.stall();
  const begun = performance.now();
  expect(String(await sleeping)).toMatch(/SSH connection was lost|terminated/);
  expect(performance.now() - begun).toBeLessThan(40_000);
});

test("a slow receiver bounds what is buffered, also under TLS", async () => {
  await using ssh = await startSshServer("ssh2", generated.public_key);
  const sockets: TLSSocket[] = [];
  const options = { cert: testServerCertificate, key: testServerKey };
  const silent = createTlsServer(options, (socket) => {
    socket.on("error", () => {});
    socket.pause();
    sockets.push(socket);
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const raw = new TunnelSocket(tunnelTo(ssh));
  raw.connect((silent.address() as AddressInfo).port, "127.0.0.1");
  await new Promise((resolve, reject) => raw.once("connect", resolve).once("error", reject));
  const socket = tlsConnect({ socket: raw, servername: "localhost", ca: testRootCertificate });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const chunk = Buffer.alloc(1 << 20);
  let taken = 0;
  for (let isTaken = true; isTaken && taken < 500; taken += 1) {
    if (socket.write(chunk)) continue;
    const drained = new Promise<boolean>((resolve) => socket.once("drain", () => resolve(true)));
    isTaken = await Promise.race([drained, Bun.sleep(1_000).then(() => false)]);
  }
  expect(taken).toBeLessThan(100);
  socket.destroy();
  raw.destroy();
  for (const end of sockets) end.destroy();
  await new Promise((resolve) => silent.close(resolve));
});

test("another process that connects to the tunnel's local port gets nothing", async () => {
  await using ssh = await startSshServer("ssh2", generated.public_key);
  const strangers: Socket[] = [];
  const socket = new TunnelSocket(tunnelTo(ssh));
  // library edge: the tunnel itself calls `listen`, so a faster process could connect to the port first.
  const { Server } = await import("node:net");
  const listen = Server.prototype.listen;
  Server.prototype.listen = function (this: InstanceType<typeof Server>, ...rest: unknown[]) {
    this.once("listening", () => {
      const address = this.address();
      if (address === null || typeof address === "string") return;
      const stranger = connect(address.port, "127.0.0.1");
      stranger.on("error", () => {});
      strangers.push(stranger);
    });
    return (listen as (...all: unknown[]) => InstanceType<typeof Server>).apply(this, rest);
  } as typeof listen;
  try {
    socket.connect(server.port, "127.0.0.1");
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  } finally {
    Server.prototype.listen = listen;
  }
  expect(strangers.length).toBe(1);
  await waitFor("the stranger is turned away", () => strangers[0]?.closed || strangers[0]?.destroyed);
  // The server answers an SSLRequest with one byte, which shows that the socket leads to it.
  socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
  const answer = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  expect(answer.toString()).toBe("S");
  socket.destroy();
});
