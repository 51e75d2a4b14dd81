// Opens the state: the lock, the key, the database, the tables, and the stores.

import { sql } from "drizzle-orm";
import { stored } from "./database.ts";
import { makeDirectory, openDatabase, type StateOptions } from "./open-database.ts";
import { sinkRecordParts, sinkRecords, sourceRecords } from "./schema.ts";
import { Cipher } from "./secrets/encryption.ts";
import { dropKeyFile, loadKeyFile, parseEncryptionKey } from "./secrets/encryption-key.ts";
import { checkKey } from "./secrets/key-check.ts";
import { cipherOfFile } from "./secrets/key-rotation.ts";
import { ConnectorStore } from "./stores/connector-store.ts";
import { HistoryStore } from "./stores/history-store.ts";
import { RecordStore } from "./stores/record-store.ts";
import { TaskStore } from "./stores/task-store.ts";

export interface State extends AsyncDisposable {
  readonly connectors: ConnectorStore;
  readonly history: HistoryStore;
  readonly tasks: TaskStore;
  /** Records of sinks that cannot store their checkpoint with their rows. */
  readonly sinkRecords: RecordStore;
  /** What sources keep between runs. */
  readonly sourceRecords: RecordStore;
  /** Aborted when another service may own this state by now, or its database has died: this service must stop. */
  readonly lost: AbortSignal;
  /** Throws `state_unavailable` when the store does not answer. */
  ping(): Promise<void>;
}

/**
 * Throws `invalid_setting` when another service has the state or a setting is wrong, `encryption_key_mismatch` when the
 * state was written with another key, `state_unavailable` when it cannot be reached.
 */
export async function openState(options: StateOptions): Promise<State> {
  await using owned = new AsyncDisposableStack();
  await makeDirectory(options);
  const given = options.encryptionKey && parseEncryptionKey(options.encryptionKey, "MILLRACE_ENCRYPTION_KEY");
  // Before anything is opened, so that an unusable key file is reported first.
  const { key, isNew } = given ? { key: given, isNew: false } : await loadKeyFile(options.dataDirectory);
  const { database, lost } = await openDatabase(options, owned);
  const cipher = given ? new Cipher(key) : await cipherOfFile(options.dataDirectory, key, database);
  try {
    await checkKey(database, cipher);
  } catch (error) {
    // The state's own key file is lost. A new key that opens nothing must not take its place, least of all in a backup.
    if (isNew) await dropKeyFile(options.dataDirectory);
    throw error;
  }
  const tasks = new TaskStore(database);
  // No run can be executing them: this service has just started.
  await tasks.releaseRunning();
  const dispose = owned.move();
  return {
    connectors: new ConnectorStore(database, cipher),
    history: new HistoryStore(database),
    tasks,
    sinkRecords: new RecordStore(database, sinkRecords, sinkRecordParts),
    sourceRecords: new RecordStore(database, sourceRecords, null),
    lost,
    ping: async () => {
      await stored(database.execute(sql`select 1`).execute());
    },
    [Symbol.asyncDispose]: () => dispose.disposeAsync(),
  };
}
