// Gives a running test server TLS, with the test certificates.

import { chown, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { waitFor } from "../wait-for.ts";
import type { PostgresServer } from "./postgres-server.ts";
import { testServerCertificate, testServerKey } from "./tls-certificates.ts";

export interface ServerTls {
  /** PEM text. */
  readonly certificate: string;
  readonly key: string;
  /** What client certificates must be signed by; without one none is asked for. */
  readonly clientRoot?: string;
}

const usual: ServerTls = { certificate: testServerCertificate, key: testServerKey };

/** Resolves when new connections may use TLS. The usual certificate is for `localhost`. */
export async function enableTls(server: PostgresServer, tls: ServerTls = usual): Promise<void> {
  await writeOwned(server, "server.crt", tls.certificate);
  await writeOwned(server, "server.key", tls.key);
  if (tls.clientRoot !== undefined) {
    await writeOwned(server, "root.crt", tls.clientRoot);
    await server.query("alter system set ssl_ca_file = 'root.crt'");
  }
  await server.query("alter system set ssl = on");
  await server.query("select pg_reload_conf()");
  await waitFor("ssl is on", async () => {
    const [row] = await server.query<{ ssl: string }>("show ssl");
    return row?.ssl === "on";
  });
}

/** The server wants its key to be its own user's, and nobody else's. */
async function writeOwned(server: PostgresServer, name: string, text: string): Promise<void> {
  const path = join(server.directory, "data", name);
  await writeFile(path, text, { mode: 0o600 });
  if (process.getuid?.() === 0) await chown(path, 65_534, 65_534);
}
