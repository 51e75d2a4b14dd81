// Checks the encryption key at the start: a known text in the state's database is encrypted with it. Otherwise a wrong
// key would be found only when the first connector is read.

import { eq } from "drizzle-orm";
import { type Database, stored } from "../database.ts";
import { settings } from "../schema.ts";
import type { Cipher } from "./encryption.ts";

const name = "encryption_key_check";
const associatedData = "the state";

/** A new state takes the cipher's key. Throws `encryption_key_mismatch` if the state has another key. */
export async function checkKey(database: Database, cipher: Cipher): Promise<void> {
  const value = cipher.seal("millrace", associatedData);
  await stored(database.insert(settings).values({ name, value }).onConflictDoNothing().execute());
  cipher.open(await sealedCheck(database), associatedData);
}

/** Whether the state was written with this key. A new state has no key yet. */
export async function isKeyOf(database: Database, cipher: Cipher): Promise<boolean> {
  const sealed = await sealedCheck(database);
  try {
    cipher.open(sealed, associatedData);
    return true;
  } catch {
    return false;
  }
}

/** Changes the state's key to the cipher's, in the transaction of `database`. */
export async function resealCheck(database: Database, cipher: Cipher): Promise<void> {
  await database
    .update(settings)
    .set({ value: cipher.seal("millrace", associatedData) })
    .where(eq(settings.name, name));
}

/**
 * Keeps the state's key from being changed until the transaction of `database` ends. Throws `encryption_key_mismatch` if it is another one
 * than the cipher's by now: what that seals could never be read.
 */
export async function holdKey(database: Database, cipher: Cipher): Promise<void> {
  const [check] = await database.select().from(settings).where(eq(settings.name, name)).for("share");
  if (check) cipher.open(check.value, associatedData);
}

async function sealedCheck(database: Database): Promise<string> {
  const rows = await stored(database.select().from(settings).where(eq(settings.name, name)).execute());
  return rows[0]?.value ?? "";
}
