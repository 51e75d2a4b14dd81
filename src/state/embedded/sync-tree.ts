// Syncs a directory tree, or the entries of a single directory, so that they survive the death of the machine. It opens
// and closes every file of the tree. POSIX drops a process's record locks on a file when the process closes any
// descriptor of it, so the tree must not contain a lock file.

import { open, readdir } from "node:fs/promises";
import { join } from "node:path";

const maxConcurrent = 8;

/** Returns when every file and directory under `root`, and `root` itself, is on the disk. */
export async function syncTree(root: string): Promise<void> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  const queue = [...paths, root];
  const worker = async () => {
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) await syncPath(path);
  };
  await Promise.all(Array.from({ length: maxConcurrent }, worker));
}

/**
 * Returns when the names in `directory` are on the disk: what was created, renamed or removed. A directory that this
 * process may not read, or whose file system cannot sync it, is left to the operating system.
 */
export async function syncEntries(directory: string): Promise<void> {
  try {
    await syncPath(directory);
  } catch (error) {
    if (!["EACCES", "EPERM", "EINVAL"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

async function syncPath(path: string): Promise<void> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, "r");
  } catch (error) {
    // The database is running already: a file that it has removed needs no sync.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
