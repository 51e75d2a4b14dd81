// Makes what was just written survive the death of the machine: a directory tree, or a single directory's entries.
// It opens and closes every file of a tree. POSIX lets go of a process's record locks on a file when the process
// closes any descriptor of it, so no tree with a lock file in it may be handed over.

import { open, readdir } from "node:fs/promises";
import { join } from "node:path";

const atOnce = 8;

/** Has every file and directory under `root`, and `root` itself, on the disk when it returns. */
export async function syncTree(root: string): Promise<void> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  const queue = [...paths, root];
  const worker = async () => {
    for (let path = queue.pop(); path !== undefined; path = queue.pop()) await syncPath(path);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/**
 * Has the names in `directory` on the disk when it returns: what was made, renamed or removed there. One that this
 * process may not read, or whose file system knows no such thing, is left to the operating system.
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
    // The database is at work already: what it removed need not be kept.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
