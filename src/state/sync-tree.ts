// Makes a directory that was just written survive the death of the machine.

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
