// Rotates the encryption key. The database and the key file cannot change in one step. So the new key is stored durably
// beside the old one before anything is encrypted with it, and replaces the old one afterwards. Whenever the process
// dies, one of the two keys opens the state. Over Postgres nothing locks the data directory: who changes the next key holds
// the lock of use-lock.ts, alone until the commit, and shared to put the key in its place.

import { MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import { type Database, rowsOf, stored } from "../database.ts";
import { makeDirectory, openDatabase, type StateOptions } from "../open-database.ts";
import { aloneSql, shareUseMeanwhileSql } from "../server/use-lock.ts";
import { resealConnectors } from "../stores/connector-store.ts";
import { liveReplicaSql } from "../stores/installation-view.ts";
import { Cipher } from "./encryption.ts";
import {
  adoptNextKey,
  dropKeyDrafts,
  dropKeyFile,
  dropNextKey,
  type FileKey,
  keyFilePath,
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

/** The state's cipher if its key was given. Throws as `checkKey` does. */
export async function cipherOf(key: Uint8Array, database: Database): Promise<Cipher> {
  const cipher = new Cipher(key);
  await checkKey(database, cipher);
  return cipher;
}

/**
 * The state's cipher if its key is in a file, which held `file`. Completes or undoes a rotation that was interrupted, so the caller
 * keeps others from beginning one. Throws as `checkKey` does.
 */
export async function cipherOfFile(
  dataDirectory: string,
  file: FileKey,
  database: Database,
): Promise<Cipher> {
  await dropKeyDrafts(dataDirectory);
  try {
    return await cipherOf(await settledKey(dataDirectory, file.key, database), database);
  } catch (error) {
    // The state's own key file is lost. A new key that opens nothing must not take its place, least of all in a backup. After another
    // failure the state may have the new key.
    const opensNothing = toMillraceError(error).code === "encryption_key_mismatch";
    if (file.isNew && opensNothing) await dropKeyFile(dataDirectory);
    throw error;
  }
}

/** The next key takes the place of the key file's, `known`, if the state has it, and is dropped if the state has `known`. */
async function settledKey(dataDirectory: string, known: Uint8Array, database: Database): Promise<Uint8Array> {
  const next = await loadNextKey(dataDirectory);
  if (next === null) return known;
  if (await isKeyOf(database, new Cipher(next))) {
    await adoptNextKey(dataDirectory);
    return next;
  }
  if (await isKeyOf(database, new Cipher(known))) await dropNextKey(dataDirectory);
  return known;
}

/**
 * Encrypts everything with `newKey`; null: with a new key that replaces the key file's. No service may be using the
 * state. Throws as `openState` does, and `invalid_setting` if the key is not in a file and no new one is given.
 */
export async function rotateKey(options: KeyOptions, newKey: string | null): Promise<Rotated> {
  const { encryptionKey, dataDirectory } = options;
  if (encryptionKey !== null && newKey === null) throw newKeyMissing();
  const given = newKey && parseEncryptionKey(newKey, "MILLRACE_NEW_ENCRYPTION_KEY");
  const old = encryptionKey && parseEncryptionKey(encryptionKey, "MILLRACE_ENCRYPTION_KEY");
  await using owned = new AsyncDisposableStack();
  await makeDirectory(options);
  const { database } = await openDatabase({ ...options, instance: crypto.randomUUID() }, owned);
  const connectors = await stored(
    database.transaction(async (transaction) => {
      // First: the next key that is there may be that of a rotation that has not committed yet.
      await refuseWhileUsed(transaction);
      const from = old
        ? await cipherOf(old, transaction)
        : await cipherOfFile(dataDirectory, await loadKeyFile(dataDirectory), transaction);
      const to = new Cipher(given || (await makeNextKey(dataDirectory)));
      await resealCheck(transaction, to);
      return await resealConnectors(transaction, from, to);
    }),
  );
  return { connectors, keyFile: given ? null : await replaceKeyFile(dataDirectory, database) };
}

/**
 * After a rotation has committed. A service that has begun since, or the next rotation, may have done so already. Returns the path of
 * the key file.
 */
async function replaceKeyFile(dataDirectory: string, database: Database): Promise<string> {
  await stored(
    database.transaction(async (transaction) => {
      await transaction.execute(shareUseMeanwhileSql);
      const { key } = await loadKeyFile(dataDirectory);
      await settledKey(dataDirectory, key, transaction);
    }),
  );
  return keyFilePath(dataDirectory);
}

/** In the transaction of `database`, until whose end no service begins to use the state. */
async function refuseWhileUsed(database: Database): Promise<void> {
  const [use] = await rowsOf<{ alone: boolean }>(database, aloneSql);
  const [seen] = await rowsOf<{ id: string }>(database, liveReplicaSql);
  if (use?.alone && !seen) return;
  const who = seen ? `A service, the replica ${seen.id},` : "A service, or another rotate-key,";
  throw new MillraceError(
    "invalid_setting",
    `${who} works on the state. Stop every service that uses it, and then change the key.`,
  );
}

function newKeyMissing(): MillraceError {
  return new MillraceError(
    "invalid_setting",
    "The state's key is that of MILLRACE_ENCRYPTION_KEY: set MILLRACE_NEW_ENCRYPTION_KEY to the one that is to take its place. " +
      "Make one with: openssl rand -base64 32",
  );
}
