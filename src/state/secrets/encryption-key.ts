// The encryption key: the setting, or a file in the data directory that is created once.

import { randomBytes, randomUUID } from "node:crypto";
import { link, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MillraceError } from "../../errors/millrace-error.ts";
import { syncEntries } from "../embedded/sync-tree.ts";

export const keyFileName = "encryption.key";
/** The key that will replace it: see key-rotation.ts. */
const nextFileName = "encryption.key.next";

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

export const keyFilePath = (dataDirectory: string) => join(dataDirectory, keyFileName);

export interface FileKey {
  readonly key: Uint8Array;
  /** The file did not exist before. */
  readonly isNew: boolean;
}

/** The key of the key file in `dataDirectory`. Creates the file, with mode 0600, if it is missing. */
export async function loadKeyFile(dataDirectory: string): Promise<FileKey> {
  const path = keyFilePath(dataDirectory);
  const existing = await readKeyFile(path);
  if (existing !== null) return { key: parseEncryptionKey(existing, path), isNew: false };
  await writeKeyFile(path, randomBytes(32).toString("base64"));
  return { key: parseEncryptionKey((await readKeyFile(path)) ?? "", path), isNew: true };
}

export async function dropKeyFile(dataDirectory: string): Promise<void> {
  await rm(keyFilePath(dataDirectory), { force: true });
}

/** The key that will replace the key file's; null: none. */
export async function loadNextKey(dataDirectory: string): Promise<Uint8Array | null> {
  const path = join(dataDirectory, nextFileName);
  const text = await readKeyFile(path);
  return text === null ? null : parseEncryptionKey(text, path);
}

/** Creates a key durably. Replaces one that exists. */
export async function makeNextKey(dataDirectory: string): Promise<Uint8Array> {
  await dropNextKey(dataDirectory);
  const key = randomBytes(32);
  await writeKeyFile(join(dataDirectory, nextFileName), key.toString("base64"));
  return key;
}

/** Makes it the key file. Another process may have done so meanwhile. */
export async function adoptNextKey(dataDirectory: string): Promise<void> {
  await rename(join(dataDirectory, nextFileName), keyFilePath(dataDirectory)).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  });
  await syncEntries(dataDirectory);
}

export async function dropNextKey(dataDirectory: string): Promise<void> {
  await rm(join(dataDirectory, nextFileName), { force: true });
  await syncEntries(dataDirectory);
}

/** Removes drafts of keys that a process left behind when it died. The caller holds the state's lock. */
export async function dropKeyDrafts(dataDirectory: string): Promise<void> {
  const drafts = (await readdir(dataDirectory)).filter((name) => draftName.test(name));
  for (const name of drafts) await rm(join(dataDirectory, name), { force: true });
}

const draftName = /^encryption\.key(\.next)?\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

async function readKeyFile(path: string): Promise<string | null> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) {
      const is = (mode & 0o777).toString(8);
      throw new MillraceError(
        "invalid_setting",
        `Others may read ${path}, which has mode ${is}. Run: chmod 600 ${path}`,
      );
    }
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/**
 * Writes atomically, even if the machine dies meanwhile. An existing file is kept. The draft has a random name: in a
 * container every process has the same id, and a draft that a killed process left would be in the way.
 */
async function writeKeyFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeSynced(draft, `${text}\n`);
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(draft, { force: true });
  }
  // Data encrypted with the key may outlive this machine in another database. So the file's name must be durable too,
  // and that of a directory that was just created for it.
  await syncEntries(dirname(path));
  await syncEntries(dirname(dirname(path)));
}

async function writeSynced(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    // A directory's default ACL may have added permissions.
    await file.chmod(0o600);
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}
