// The host keys of SSH servers: who presents another one is not let near the database.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newSshKeyPair } from "../../src/api/routes/ssh-key-pair.ts";
import { closeClient, connectPostgres } from "../../src/connection/postgres-client.ts";
import type { SshTunnel } from "../../src/connector/config/bastions.ts";
import type { PostgresConnection } from "../../src/connector/config/connection.ts";
import { hostKeysOf } from "../../src/connector/config/host-keys.ts";
import { toMillraceError } from "../../src/errors/millrace-error.ts";
import { validatePostgresSink } from "../../src/sink/postgres/checks/sink-validation.ts";
import { validatePostgresSource } from "../../src/source/postgres/checks/source-validation.ts";
import { fullConnection, postgresSink, postgresSource } from "../support/api/connector-config.ts";
import { findTest, outline } from "../support/api/validation-events.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { bringKey } from "../support/servers/ssh-keys.ts";
import { type SshServer, sshServerKinds, startSshServer } from "../support/servers/ssh-server.ts";

const login = newSshKeyPair();
let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const signal = () => AbortSignal.timeout(30_000);
const strangeKey = newSshKeyPair().public_key;
const fingerprintOf = (line: string) => hostKeysOf([line])[0]?.fingerprint ?? "";

function through(ssh: SshServer, change: Partial<SshTunnel>): PostgresConnection {
  const address = { bastion_host: "127.0.0.1", bastion_port: ssh.port, user: ssh.user };
  const tunnel = { ...address, bastion_alternates: [], auth: { generated_key: login }, ...change };
  return fullConnection(server.connection(), { tunnel: { ssh: tunnel } });
}

/** "connected", or code, retry and message of the failure. */
async function outcome(connection: PostgresConnection, side: "source" | "sink" = "source"): Promise<string> {
  try {
    await closeClient(await connectPostgres(connection, "control", signal(), side));
    return "connected";
  } catch (error) {
    const { code, retry, message } = toMillraceError(error);
    return `${code} ${retry}: ${message}`;
  }
}

describe.each([...sshServerKinds])("of %s", (kind) => {
  let ssh: SshServer;
  let key = "";
  beforeAll(async () => {
    ssh = await startSshServer(kind, login.public_key);
    key = ssh.hostKeys[0] ?? "";
  });
  afterAll(() => ssh[Symbol.asyncDispose]());

  test("the key, its fingerprint, and one of several let the connection through", async () => {
    for (const host_keys of [
      [key],
      [fingerprintOf(key)],
      [strangeKey, fingerprintOf(key)],
      [`${key} a comment`],
    ]) {
      expect(await outcome(through(ssh, { host_keys }))).toBe("connected");
    }
  });

  test("another key is a permanent failure that shows both fingerprints, before anything is sent", async () => {
    const before = ssh.logins;
    const own = { auth: { bring_your_own_key: { private_key: login.private_key } } };
    for (const change of [{}, own]) {
      const said = await outcome(through(ssh, { ...change, host_keys: [strangeKey] }), "sink");
      expect(said).toStartWith("sink_authentication_failed permanent: The SSH server presented host key");
      expect(said).toContain(`${fingerprintOf(key)} (ssh-ed25519)`);
      expect(said).toContain(fingerprintOf(strangeKey));
      expect(said).toContain("put it into host_keys");
    }
    expect(ssh.logins).toBe(before);
  });

  test("a server with keys of several types presents the expected one", async () => {
    const keys = [bringKey("ed25519"), bringKey("rsa"), bringKey("ecdsa")];
    await using other = await startSshServer(kind, login.public_key, keys);
    for (const { publicKey } of keys) {
      expect(await outcome(through(other, { host_keys: [publicKey] }))).toBe("connected");
    }
  });

  test("alternates are held to the keys too", async () => {
    await using other = await startSshServer(kind, login.public_key);
    const bastion_alternates = [`127.0.0.1:${other.port}`];
    const only = (host_keys: readonly string[]) =>
      outcome(through(ssh, { bastion_alternates, host_keys: [...host_keys] }));
    expect(await only([other.hostKeys[0] ?? ""])).toBe("connected");
    expect(other.logins).toBeGreaterThan(0);
    const refused = await only([strangeKey]);
    expect(refused).toStartWith("source_authentication_failed permanent: None of 2 SSH servers");
    for (const seen of [key, other.hostKeys[0] ?? ""]) expect(refused).toContain(fingerprintOf(seen));
  });

  test("validation refuses another key, and warns with the fingerprint where none is expected", async () => {
    const validate = async (change: Partial<SshTunnel>) => {
      const connection = through(ssh, change);
      const sink = postgresSink(server.connection(), { connection });
      const source = postgresSource(server.connection(), { connection });
      return [await validatePostgresSource(source, signal()), await validatePostgresSink(sink, signal())];
    };
    for (const events of await validate({ host_keys: [strangeKey] })) {
      expect(outline(events).slice(1, 6)).toEqual([
        ...["DnsResolution: Success", "Reachability: Success", "TLS: Skipped", "Connection: Skipped"],
        "Authentication: Failed",
      ]);
      expect(findTest(events, "Authentication").status.Failed?.reason).toContain(fingerprintOf(key));
    }
    for (const events of await validate({})) {
      const { status, message } = findTest(events, "Authentication");
      expect(status).toEqual({ Warn: {} });
      expect(message).toContain(`"host_keys": ["${fingerprintOf(key)}"]`);
      expect(findTest(events, "TLS").message).toBe(
        "The server offers no TLS: passwords and rows are encrypted up to the SSH server, and travel unencrypted from " +
          "there to the database.",
      );
    }
    const direct = fullConnection(server.connection());
    const events = await validatePostgresSink(postgresSink(direct), signal());
    expect(findTest(events, "TLS").message).toBe(
      "The server offers no TLS: passwords and rows travel unencrypted.",
    );
    for (const events of await validate({ host_keys: [fingerprintOf(key)] }))
      expect(findTest(events, "Authentication").status).toEqual({ Success: {} });
  });
});
