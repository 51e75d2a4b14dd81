// Opens everything that is stored: the lock, the key, the database, the tables, and the stores over them.

import { mkdir } from "node:fs/promises";
import { eq, sql } from "drizzle-orm";
import { ConnectorStore } from "./connector-store.ts";
import { type Database, type OpenDatabase, stored } from "./database.ts";
import { lockDirectory } from "./directory-lock.ts";
import { Cipher } from "./encryption.ts";
import { loadKeyFile, parseEncryptionKey } from "./encryption-key.ts";
import { HistoryStore } from "./history-store.ts";
import { RecordStore } from "./record-store.ts";
import { settings, sinkRecordParts, sinkRecords, sourceRecords } from "./schema.ts";
import { TaskStore } from "./task-store.ts";

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

export interface State extends AsyncDisposable {
  readonly connectors: ConnectorStore;
  readonly history: HistoryStore;
  readonly tasks: TaskStore;
  /** Where sinks stand that cannot keep their checkpoint beside their rows. */
  readonly sinkRecords: RecordStore;
  /** What sources remember between runs. */
  readonly sourceRecords: RecordStore;
  /** Aborted when another service may work on this state, or its database has died: this one must stop. */
  readonly lost: AbortSignal;
  /** Throws `state_unavailable` when the store does not answer. */
  ping(): Promise<void>;
}

/**
 * Throws `invalid_setting` when another service holds the state or a setting is wrong, `encryption_key_mismatch`
 * when the state was written with another key, `state_unavailable` when it cannot be reached.
 */
export async function openState(options: StateOptions): Promise<State> {
  await using owned = new AsyncDisposableStack();
  if (options.databaseUrl === null || options.encryptionKey === null) {
    await mkdir(options.dataDirectory, { recursive: true, mode: 0o700 });
  }
  const cipher = new Cipher(await findKey(options));
  const open = owned.use(await openDatabase(options, owned));
  const { database } = open;
  await checkKey(database, cipher);
  const tasks = new TaskStore(database);
  // Before anybody can have asked for one: whoever ran them is gone.
  await tasks.releaseRunning();
  const dispose = owned.move();
  return {
    connectors: new ConnectorStore(database, cipher),
    history: new HistoryStore(database),
    tasks,
    sinkRecords: new RecordStore(database, sinkRecords, sinkRecordParts),
    sourceRecords: new RecordStore(database, sourceRecords, null),
    lost: open.lost,
    ping: async () => {
      await stored(database.execute(sql`select 1`).execute());
    },
    [Symbol.asyncDispose]: () => dispose.disposeAsync(),
  };
}

async function findKey(options: StateOptions): Promise<Uint8Array> {
  if (options.encryptionKey === null) return loadKeyFile(options.dataDirectory);
  return parseEncryptionKey(options.encryptionKey, "MILLRACE_ENCRYPTION_KEY");
}

/** Loads only the driver that is asked for: PGlite alone costs memory and a third of a second. */
async function openDatabase(options: StateOptions, owned: AsyncDisposableStack): Promise<OpenDatabase> {
  if (options.databaseUrl !== null) {
    const { openPostgresDatabase } = await import("./postgres-database.ts");
    return openPostgresDatabase(options.databaseUrl);
  }
  owned.use(lockDirectory(options.dataDirectory));
  const { openPgliteDatabase } = await import("./pglite-database.ts");
  return openPgliteDatabase(options.dataDirectory, options.reportUpkeep ?? (() => {}));
}

const keyCheckName = "encryption_key_check";

/** A wrong key is found at the start, not when the first connector is read. */
async function checkKey(database: Database, cipher: Cipher): Promise<void> {
  const sealed = { name: keyCheckName, value: cipher.seal("millrace", keyCheckPlace) };
  await stored(database.insert(settings).values(sealed).onConflictDoNothing().execute());
  const rows = await stored(
    database.select().from(settings).where(eq(settings.name, keyCheckName)).execute(),
  );
  cipher.open(rows[0]?.value ?? "", keyCheckPlace);
}

const keyCheckPlace = "the state";
