// Opens the state: the lock, the key, the database, the tables, and the stores.

import { sql } from "drizzle-orm";
import { toMillraceError } from "../errors/millrace-error.ts";
import { type Database, type Reopened, type SharedDatabase, stored } from "./database.ts";
import { latestMigration } from "./migrations.ts";
import type { Notices } from "./notices.ts";
import { makeDirectory, openDatabase, type StateOptions } from "./open-database.ts";
import { sinkRecordParts, sinkRecords, sourceRecords } from "./schema.ts";
import { loadKeyFile, parseEncryptionKey } from "./secrets/encryption-key.ts";
import { checkKey } from "./secrets/key-check.ts";
import { cipherOf, cipherOfFile } from "./secrets/key-rotation.ts";
import { ConnectorStore } from "./stores/connector-store.ts";
import { HistoryStore } from "./stores/history-store.ts";
import { LeaseStore } from "./stores/lease-store.ts";
import { ParkedMessages } from "./stores/parked-messages.ts";
import { ReceiptStore } from "./stores/receipt-store.ts";
import { RecordStore } from "./stores/record-store.ts";
import { ReportStore } from "./stores/report-store.ts";
import { RunParking } from "./stores/run-parking.ts";
import { TaskStore } from "./stores/task-store.ts";

export interface State extends AsyncDisposable {
  readonly connectors: ConnectorStore;
  readonly history: HistoryStore;
  readonly tasks: TaskStore;
  /** Records of sinks that cannot store their checkpoint with their rows. */
  readonly sinkRecords: RecordStore;
  /** What runs park. */
  readonly parking: RunParking;
  /** What is parked, for people. */
  readonly parked: ParkedMessages;
  /** What became of requests. */
  readonly receipts: ReceiptStore;
  /** What sources keep between runs. */
  readonly sourceRecords: RecordStore;
  /** Null: the state is embedded, and this replica is alone. */
  readonly shared: SharedState | null;
  /** Aborted when this service can never work on the state again, or its database has died: it must stop. */
  readonly lost: AbortSignal;
  /** Throws `state_unavailable` when the store does not answer. */
  ping(): Promise<void>;
}

/** What several replicas need who share one state. */
export interface SharedState {
  readonly leases: LeaseStore;
  readonly reports: ReportStore;
  readonly notices: Notices;
  /** UUID of this life of the process. */
  readonly instance: string;
}

/**
 * Throws `invalid_setting` when another service has the directory or migrates the database, or a setting is wrong, `encryption_key_mismatch` when the
 * state was written with another key, `state_unavailable` when it cannot be reached.
 */
export async function openState(options: StateOptions): Promise<State> {
  await using owned = new AsyncDisposableStack();
  await makeDirectory(options);
  const given = options.encryptionKey && parseEncryptionKey(options.encryptionKey, "MILLRACE_ENCRYPTION_KEY");
  // Before anything is opened, so that an unusable key file is reported first.
  const key = given || (await loadKeyFile(options.dataDirectory));
  const opened = await openDatabase(options, owned);
  const { database, lost } = opened;
  let keepsKey: Reopened = async () => {};
  // First: from here on nobody changes the key, unless this replica loses that session. Then `keepsKey` checks the key again.
  const shared =
    opened.shared &&
    (await share(opened.shared, database, options.instance, owned, (session) => keepsKey(session)));
  const cipher =
    key instanceof Uint8Array
      ? await cipherOf(key, database)
      : await cipherOfFile(options.dataDirectory, key, database);
  keepsKey = (session) => checkKey(session, cipher).catch((error: unknown) => lostKey(error, opened.shared));
  const dispose = owned.move();
  const records = new RecordStore(database, sinkRecords, sinkRecordParts);
  return {
    connectors: new ConnectorStore(database, cipher),
    history: new HistoryStore(database),
    tasks: new TaskStore(database),
    sinkRecords: records,
    sourceRecords: new RecordStore(database, sourceRecords, null),
    parking: new RunParking(database),
    parked: new ParkedMessages(database),
    receipts: new ReceiptStore(database, records),
    shared,
    lost,
    ping: async () => {
      await stored(database.execute(sql`select 1`).execute());
    },
    [Symbol.asyncDispose]: () => dispose.disposeAsync(),
  };
}

async function share(
  { listen, lose, forLeases }: SharedDatabase,
  database: Database,
  instance: string,
  owned: AsyncDisposableStack,
  reopened: Reopened,
): Promise<SharedState> {
  const notices = owned.use(await listen(reopened));
  const latest = latestMigration();
  const leases = new LeaseStore({
    database: forLeases,
    patient: database,
    latestMigration: latest,
    outdated: lose,
  });
  return { leases, reports: new ReportStore(database), notices, instance };
}

/** Another key has taken the place of this service's, if that is what failed. */
function lostKey(failure: unknown, shared: SharedDatabase | null): never {
  const error = toMillraceError(failure);
  if (error.code === "encryption_key_mismatch") shared?.lose(error);
  throw error;
}
