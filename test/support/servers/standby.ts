// A standby of a running server, made as a base backup is made, but by copying the files where they are.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP

import { spawnSync } from "node:child_process";
import { chown, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PostgresServer } from "./postgres-server.ts";

/** The standby's own slot at the primary, which keeps the log that it still needs. */
export const standbySlot = "standby";

/** It follows `primary` when this resolves. `settings` over what a standby needs. `major`: the primary's version. */
export async function startStandby(
  primary: PostgresServer,
  settings: Readonly<Record<string, string>> = {},
  major?: number,
): Promise<PostgresServer> {
  await primary.query(`select pg_create_physical_replication_slot('${standbySlot}', true)`);
  const { host, port, user } = primary.connection();
  return await PostgresServer.start({
    ...(major !== undefined && { major }),
    fill: (directory) => copyData(primary, directory),
    settings: {
      primary_conninfo: `host=${host} port=${port} user=${user} dbname=postgres`,
      primary_slot_name: standbySlot,
      hot_standby_feedback: "on",
      ...settings,
    },
  });
}

async function copyData(primary: PostgresServer, directory: string): Promise<void> {
  await using session = await primary.connect();
  await session.query("select pg_backup_start('standby', true)");
  // It copies owners too. A file that is dropped meanwhile is none that is missed.
  const copied = spawnSync("cp", ["-a", join(primary.directory, "data"), directory], { encoding: "utf8" });
  const { rows } = await session.query<{ labelfile: string }>("select labelfile from pg_backup_stop(false)");
  for (const name of ["postmaster.pid", "postmaster.opts"]) await rm(join(directory, name), { force: true });
  // Slots are the primary's.
  spawnSync("find", [join(directory, "pg_replslot"), "-mindepth", "1", "-delete"]);
  const files = { backup_label: rows[0]?.labelfile ?? "", "standby.signal": "" };
  for (const [name, text] of Object.entries(files)) {
    const path = join(directory, name);
    await writeFile(path, text, { mode: 0o600 });
    if (process.getuid?.() === 0) await chown(path, 65_534, 65_534);
  }
  if (copied.error) throw copied.error;
}
