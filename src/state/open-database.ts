// Opens the database that the state is in: that of DATABASE_URL, or PGlite in the data directory, which is locked then.

import { mkdir } from "node:fs/promises";
import type { OpenDatabase } from "./database.ts";
import { lockDirectory } from "./embedded/directory-lock.ts";

export interface StateOptions {
  /** A Postgres to keep the state in; null: PGlite in `dataDirectory`. */
  readonly databaseUrl: string | null;
  /** Made, with mode 0700, when there is none and something is to be kept in it. */
  readonly dataDirectory: string;
  /** 32 bytes in base64; null: the key file in `dataDirectory`. */
  readonly encryptionKey: string | null;
  /** Told of background work that failed and is tried again. */
  readonly reportUpkeep?: (error: unknown) => void;
}

/**
 * Loads only the driver that is asked for: PGlite alone costs memory and a third of a second. `owned` takes over what is opened. Throws
 * `invalid_setting` when another service holds it, `state_unavailable` when it cannot be reached.
 */
export async function openDatabase(
  options: StateOptions,
  owned: AsyncDisposableStack,
): Promise<OpenDatabase> {
  if (options.databaseUrl !== null) {
    const { openPostgresDatabase } = await import("./server/postgres-database.ts");
    return owned.use(await openPostgresDatabase(options.databaseUrl));
  }
  owned.use(lockDirectory(options.dataDirectory));
  const { openPgliteDatabase } = await import("./embedded/pglite-database.ts");
  return owned.use(await openPgliteDatabase(options.dataDirectory, options.reportUpkeep ?? (() => {})));
}

/** Where there is something to be kept in it. */
export async function makeDirectory({
  databaseUrl,
  encryptionKey,
  dataDirectory,
}: StateOptions): Promise<void> {
  if (databaseUrl !== null && encryptionKey !== null) return;
  await mkdir(dataDirectory, { recursive: true, mode: 0o700 });
}
