// Rotates the encryption key. The database and the key file cannot change in one step. So the new key is stored durably
// beside the old one before anything is encrypted with it, and replaces the old one afterwards. Whenever the process
// dies, one of the two keys opens the state.

import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, rowsOf, stored } from "../database.ts";
import { makeDirectory, openDatabase, type StateOptions } from "../open-database.ts";
import { aloneSql } from "../server/use-lock.ts";
import { resealConnectors } from "../stores/connector-store.ts";
import { liveReplicaSql } from "../stores/installation-view.ts";
import { Cipher } from "./encryption.ts";
import {
  adoptNextKey,
  dropKeyDrafts,
  dropNextKey,
  loadKeyFile,
  loadNextKey,
  makeNextKey,
  parseEncryptionKey,
} from "./encryption-key.ts";
import { checkKey, isKeyOf, resealCheck } from "./key-check.ts";

export interface Rotated {
  /** How many are encrypted with the new key. */
  readonly connectors: number;
  /** The file of the new key; null: the key was given. */
  readonly keyFile: string | null;
}

/** As for a service, which has an instance. */
export type KeyOptions = Omit<StateOptions, "instance">;

/** The state's cipher if its key is in a file. Completes or undoes a rotation that was interrupted. */
export async function cipherOfFile(
  dataDirectory: string,
  known: Uint8Array,
  database: Database,
): Promise<Cipher> {
  await dropKeyDrafts(dataDirectory);
  const next = await loadNextKey(dataDirectory);
  if (next === null) return new Cipher(known);
  if (await isKeyOf(database, new Cipher(next))) {
    await adoptNextKey(dataDirectory);
    return new Cipher(next);
  }
  const cipher = new Cipher(known);
  if (await isKeyOf(database, cipher)) await dropNextKey(dataDirectory);
  return cipher;
}

/**
 * Encrypts everything with `newKey`; null: with a new key that replaces the key file's. No service may be using the
 * state. Throws as `openState` does, and `invalid_setting` if the key is not in a file and no new one is given.
 */
export async function rotateKey(options: KeyOptions, newKey: string | null): Promise<Rotated> {
  const { encryptionKey, dataDirectory } = options;
  if (encryptionKey !== null && newKey === null) throw newKeyMissing();
  const given = newKey && parseEncryptionKey(newKey, "MILLRACE_NEW_ENCRYPTION_KEY");
  await using owned = new AsyncDisposableStack();
  await makeDirectory(options);
  const { database } = await openDatabase({ ...options, instance: crypto.randomUUID() }, owned);
  const from =
    encryptionKey === null
      ? await cipherOfFile(dataDirectory, (await loadKeyFile(dataDirectory)).key, database)
      : new Cipher(parseEncryptionKey(encryptionKey, "MILLRACE_ENCRYPTION_KEY"));
  await checkKey(database, from);
  const to = new Cipher(given || (await makeNextKey(dataDirectory)));
  const connectors = await stored(
    database.transaction(async (transaction) => {
      await refuseWhileUsed(transaction);
      await resealCheck(transaction, to);
      return await resealConnectors(transaction, from, to);
    }),
  );
  return { connectors, keyFile: given ? null : await adoptNextKey(dataDirectory) };
}

/** In the transaction of `database`, until whose end no service begins to use the state. */
async function refuseWhileUsed(database: Database): Promise<void> {
  const [use] = await rowsOf<{ alone: boolean }>(database, aloneSql);
  const [seen] = await rowsOf<{ id: string }>(database, liveReplicaSql);
  if (use?.alone && !seen) return;
  const name = seen ? `, the replica ${seen.id},` : "";
  throw new MillraceError(
    "invalid_setting",
    `A service${name} works on the state. Stop every service that uses it, and then change the key.`,
  );
}

function newKeyMissing(): MillraceError {
  return new MillraceError(
    "invalid_setting",
    "The state's key is that of MILLRACE_ENCRYPTION_KEY: set MILLRACE_NEW_ENCRYPTION_KEY to the one that is to take its place. " +
      "Make one with: openssl rand -base64 32",
  );
}
