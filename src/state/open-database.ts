// Opens the database of the state: the one of DATABASE_URL, or PGlite in the data directory, which is then locked.

import { mkdir } from "node:fs/promises";
import type { OpenDatabase } from "./database.ts";
import { lockDirectory } from "./embedded/directory-lock.ts";

export interface StateOptions {
  /** The URL of a Postgres for the state; null: PGlite in `dataDirectory`. */
  readonly databaseUrl: string | null;
  /** Created with mode 0700 where it is missing and something is stored in it. */
  readonly dataDirectory: string;
  /** 32 bytes in base64; null: the key file in `dataDirectory`. */
  readonly encryptionKey: string | null;
  /** UUID of this life of the process, by which other replicas know it. */
  readonly instance: string;
  /** How long an answer about leases may take; left out: as long as any other. */
  readonly leaseAnswerMs?: number;
  /** Called with failures of background maintenance, or of a migration that somebody's lock holds up; both are tried again. */
  readonly reportMaintenance?: (error: unknown) => void;
}

/**
 * Loads only the driver that is needed: PGlite alone costs memory and a third of a second. `owned` takes ownership of
 * what is opened. Throws `invalid_setting` when another service has the directory or migrates the database, `state_unavailable` when it cannot be
 * reached.
 */
export async function openDatabase(
  options: StateOptions,
  owned: AsyncDisposableStack,
): Promise<OpenDatabase> {
  if (options.databaseUrl !== null) {
    const { openPostgresDatabase } = await import("./server/postgres-database.ts");
    return owned.use(await openPostgresDatabase(options.databaseUrl, options));
  }
  owned.use(lockDirectory(options.dataDirectory));
  const { openPgliteDatabase } = await import("./embedded/pglite-database.ts");
  return owned.use(await openPgliteDatabase(options.dataDirectory, options.reportMaintenance ?? (() => {})));
}

/** Whether anything is stored in the data directory: the state, or the key file. */
export function usesDirectory({
  databaseUrl,
  encryptionKey,
}: Pick<StateOptions, "databaseUrl" | "encryptionKey">): boolean {
  return databaseUrl === null || encryptionKey === null;
}

/** Creates the data directory where something is stored in it. */
export async function makeDirectory(options: Omit<StateOptions, "instance">): Promise<void> {
  if (usesDirectory(options)) await mkdir(options.dataDirectory, { recursive: true, mode: 0o700 });
}
