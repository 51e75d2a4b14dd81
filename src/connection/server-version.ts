// Reads the version of the PostgreSQL server behind a session.
// https://www.postgresql.org/docs/current/runtime-config-preset.html#GUC-SERVER-VERSION-NUM

import type { Client } from "pg";

const versions = new WeakMap<Client, Promise<number>>();

/** As `server_version_num`: 170005 is 17.5. Queried once per session. */
export function serverVersion(client: Client): Promise<number> {
  const cached = versions.get(client);
  if (cached) return cached;
  const version = readVersion(client);
  versions.set(client, version);
  version.catch(() => versions.delete(client));
  return version;
}

async function readVersion(client: Client): Promise<number> {
  const { rows } = await client.query<{ number: number }>(
    "select current_setting('server_version_num')::int4 as number",
  );
  return rows[0]?.number ?? 0;
}
