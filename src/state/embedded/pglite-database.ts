// The state in the data directory: Postgres as a library, in this process.

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
import { keepUp, type UpkeepReport } from "./pglite-upkeep.ts";
import { unpackPrepared } from "./prepared-archive.ts";
import { syncEntries, syncTree } from "./sync-tree.ts";

/** Opens the database in `dataDirectory`, made when there is none. The caller holds the directory's lock. */
export async function openPgliteDatabase(
  dataDirectory: string,
  reportUpkeep: UpkeepReport,
): Promise<OpenDatabase> {
  const directory = join(dataDirectory, "pglite");
  const isNew = !existsSync(directory);
  const [files] = await Promise.all([
    loadPgliteFiles(),
    isNew ? unpackPrepared(directory) : Promise.resolve(),
  ]);
  const client = await start(directory, files);
  // Nobody can take the state from under us, for the directory is locked by the kernel; but it can die.
  const { died } = guardPglite(client);
  try {
    const database = drizzle(client, { schema });
    await migrate(database);
    const upkeep = keepUp(client, reportUpkeep);
    // A thousand files take a slow disk a while: the service need not wait, its end does.
    const synced = isNew ? syncNew(directory).catch(reportUpkeep) : Promise.resolve();
    const dispose = async () => {
      await synced;
      await upkeep[Symbol.asyncDispose]();
      if (!died.aborted) await client.close();
    };
    return { database, lost: died, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    if (!died.aborted) await client.close();
    throw error;
  }
}

/** Only what is the database's own: the lock file beside it must not be opened a second time. */
async function syncNew(directory: string): Promise<void> {
  await syncTree(directory);
  await syncEntries(dirname(directory));
}

/** Lines of Postgres' own output that a failed start is told with. */
const mostToldLines = 5;

async function start(directory: string, files: Awaited<ReturnType<typeof loadPgliteFiles>>): Promise<PGlite> {
  const said: string[] = [];
  try {
    await dropStaleLock(directory);
    const fs = new DurableNodeFs(directory);
    const onStderr = (text: string) => {
      said.push(text);
      return true;
    };
    return await PGlite.create({ fs, startParams: durableStartParameters(), onStderr, ...files });
  } catch (error) {
    throw openingFailed(directory, said, error);
  }
}

/**
 * Postgres' own lock file. A process that dies between making and writing it leaves it empty, and Postgres refuses an empty one for
 * ever. It protects nothing here: the kernel's lock on the data directory is ours.
 */
async function dropStaleLock(directory: string): Promise<void> {
  await rm(join(directory, "postmaster.pid"), { force: true });
}

function openingFailed(directory: string, said: readonly string[], cause: unknown): MillraceError {
  const text = cause instanceof Error ? cause.message : String(cause);
  const words = said.map((line) => line.trim()).filter((line) => line !== "");
  const postgres = words.length === 0 ? "" : ` Postgres says: ${words.slice(-mostToldLines).join(" ")}`;
  return new MillraceError(
    "state_unavailable",
    `The state in ${directory} cannot be opened: ${text}.${postgres} Look whether the disk is full or failing, and whether the ` +
      "files are this user's; a backup of the directory can take its place.",
    { cause },
  );
}
