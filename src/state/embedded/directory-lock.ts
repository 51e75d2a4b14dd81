// Ensures that one service at a time uses a data directory. SQLite takes the kernel's lock on a small file: it ends
// with the process, however that ends, and a reused process id cannot be mistaken for its holder.

import { Database } from "bun:sqlite";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../../errors/millrace-error.ts";

/** Locks `dataDirectory` until disposed of. Throws `invalid_setting` when another process holds it. */
export function lockDirectory(dataDirectory: string): Disposable {
  const holderPath = join(dataDirectory, "millrace.pid");
  const file = new Database(join(dataDirectory, "millrace.lock"), { create: true });
  try {
    file.run("PRAGMA busy_timeout = 0");
    file.run("BEGIN EXCLUSIVE");
  } catch (error) {
    file.close();
    if ((error as { code?: unknown }).code !== "SQLITE_BUSY") throw error;
    throw new MillraceError(
      "invalid_setting",
      `The data directory ${dataDirectory} is in use by another millrace (process ${readHolder(holderPath)}). Stop it, or give this one another --data-dir.`,
    );
  }
  writeFileSync(holderPath, `${process.pid}\n`);
  return { [Symbol.dispose]: () => file.close() };
}

/** For people only: the lock does not depend on it. */
function readHolder(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "unknown";
  }
}
