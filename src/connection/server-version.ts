// Which version of PostgreSQL a session speaks to.
// https://www.postgresql.org/docs/current/runtime-config-preset.html#GUC-SERVER-VERSION-NUM

import type { Client } from "pg";

const known = new WeakMap<Client, Promise<number>>();

/** As `server_version_num`: 170005 is 17.5. Asked once in each session. */
export function serverVersion(client: Client): Promise<number> {
  const asked = known.get(client);
  if (asked) return asked;
  const version = readVersion(client);
  known.set(client, version);
  version.catch(() => known.delete(client));
  return version;
}

async function readVersion(client: Client): Promise<number> {
  const { rows } = await client.query<{ number: number }>(
    "select current_setting('server_version_num')::int4 as number",
  );
  return rows[0]?.number ?? 0;
}
