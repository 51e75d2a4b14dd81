// Where the encryption key comes from: the setting, or a file in the data directory that is made once.

import { randomBytes } from "node:crypto";
import { link, open, readFile, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { MillraceError } from "../errors/millrace-error.ts";

export const keyFileName = "encryption.key";

/** Reads base64 of 32 bytes. Throws `invalid_setting`, without the text, on anything else. */
export function parseEncryptionKey(text: string, origin: string): Uint8Array {
  const trimmed = text.trim();
  const key = Buffer.from(trimmed, "base64");
  if (key.length !== 32 || !/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) {
    throw new MillraceError(
      "invalid_setting",
      `${origin} must be 32 bytes in base64. Make one with: openssl rand -base64 32`,
    );
  }
  return key;
}

/** The key of the key file in `dataDirectory`; the file is made, with mode 0600, when there is none. */
export async function loadKeyFile(dataDirectory: string): Promise<Uint8Array> {
  const path = join(dataDirectory, keyFileName);
  const existing = await readKeyFile(path);
  if (existing !== null) return parseEncryptionKey(existing, path);
  await writeKeyFile(path, randomBytes(32).toString("base64"));
  return parseEncryptionKey((await readKeyFile(path)) ?? "", path);
}

async function readKeyFile(path: string): Promise<string | null> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) {
      throw new MillraceError("invalid_setting", `Others may read ${path}. Run: chmod 600 ${path}`);
    }
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Whole or not at all, also when the machine dies meanwhile; a file that is there already stays. */
async function writeKeyFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}`;
  const file = await open(draft, "wx", 0o600);
  try {
    await file.writeFile(`${text}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  try {
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await unlink(draft);
  }
}
