// Opens the state in the data directory: Postgres as a library, in this process.

import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { OpenDatabase } from "../database.ts";
import { migrate } from "../migrations.ts";
import * as schema from "../schema.ts";
import { DurableNodeFs, durableStartParameters } from "./durable-node-fs.ts";
import { guardPglite } from "./guarded-pglite.ts";
import { loadPgliteFiles } from "./pglite-files.ts";
import { type MaintenanceReport, startMaintenance } from "./pglite-maintenance.ts";
import { unpackPrepared } from "./prepared-archive.ts";
import { syncEntries, syncTree } from "./sync-tree.ts";

/** Opens the database in `dataDirectory`, and creates it if it is missing. The caller holds the directory lock. */
export async function openPgliteDatabase(
  dataDirectory: string,
  reportMaintenance: MaintenanceReport,
): Promise<OpenDatabase> {
  const directory = join(dataDirectory, "pglite");
  // Somebody may have made an empty directory.
  const isNew = !existsSync(join(directory, "PG_VERSION"));
  const client = await start(directory, isNew);
  // Nobody can take the state from us, because the kernel has locked the directory; but the database can die.
  const { died } = guardPglite(client);
  try {
    const database = drizzle(client, { schema });
    await migrate(database);
    const maintenance = startMaintenance(client, reportMaintenance);
    // Syncing a thousand files takes a slow disk a while. The start does not wait for it; the end does.
    const synced = isNew ? syncNew(directory).catch(reportMaintenance) : Promise.resolve();
    const dispose = async () => {
      await synced;
      await maintenance[Symbol.asyncDispose]();
      if (!died.aborted) await client.close();
    };
    return { database, lost: died, shared: null, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    if (!died.aborted) await client.close();
    throw error;
  }
}

/** Syncs the database's own files only: the lock file beside them must not be opened a second time. */
async function syncNew(directory: string): Promise<void> {
  await syncTree(directory);
  await syncEntries(dirname(directory));
}

/** Lines of Postgres' output that the error of a failed start quotes. */
const maxQuotedLines = 5;

async function start(directory: string, isNew: boolean): Promise<PGlite> {
  const output: string[] = [];
  try {
    const unpacked = isNew ? unpackPrepared(directory) : Promise.resolve();
    const [files] = await Promise.all([loadPgliteFiles(), unpacked]);
    await dropStaleLock(directory);
    const fs = new DurableNodeFs(directory);
    const onStderr = (text: string) => {
      output.push(text);
      return true;
    };
    return await PGlite.create({ fs, startParams: durableStartParameters(), onStderr, ...files });
  } catch (error) {
    throw openingFailed(directory, output, error);
  }
}

/**
 * Removes Postgres' own lock file. A process that dies between creating and writing it leaves it empty, and Postgres
 * would refuse to start ever after. It protects nothing here: our lock is the kernel's, on the data directory.
 */
async function dropStaleLock(directory: string): Promise<void> {
  await rm(join(directory, "postmaster.pid"), { force: true });
}

function openingFailed(directory: string, output: readonly string[], cause: unknown): MillraceError {
  const text = cause instanceof Error ? cause.message : String(cause);
  const lines = output.map((line) => line.trim()).filter((line) => line !== "");
  const postgres = lines.length === 0 ? "" : ` Postgres says: ${lines.slice(-maxQuotedLines).join(" ")}`;
  return new MillraceError(
    "state_unavailable",
    `The state in ${directory} cannot be opened: ${text}.${postgres} Look whether the disk is full or failing, and whether the ` +
      "files are this user's; a backup of the directory can take its place.",
    { cause },
  );
}
