// Which key the state was written with: a text in its database is sealed under it, so that a wrong one is found at the start, and not
// when the first connector is read.

import { eq } from "drizzle-orm";
import { type Database, stored } from "../database.ts";
import { settings } from "../schema.ts";
import type { Cipher } from "./encryption.ts";

const name = "encryption_key_check";
const place = "the state";

/** A state that is new is the cipher's from here on. Throws `encryption_key_mismatch` where it is another one's. */
export async function checkKey(database: Database, cipher: Cipher): Promise<void> {
  const value = cipher.seal("millrace", place);
  await stored(database.insert(settings).values({ name, value }).onConflictDoNothing().execute());
  cipher.open(await sealedCheck(database), place);
}

/** Whether the state was written with this key; one that is new was written with none. */
export async function isKeyOf(database: Database, cipher: Cipher): Promise<boolean> {
  const sealed = await sealedCheck(database);
  try {
    cipher.open(sealed, place);
    return true;
  } catch {
    return false;
  }
}

/** From here on the state is the cipher's; in the transaction of `database`. */
export async function resealCheck(database: Database, cipher: Cipher): Promise<void> {
  await database
    .update(settings)
    .set({ value: cipher.seal("millrace", place) })
    .where(eq(settings.name, name));
}

async function sealedCheck(database: Database): Promise<string> {
  const rows = await stored(database.select().from(settings).where(eq(settings.name, name)).execute());
  return rows[0]?.value ?? "";
}
