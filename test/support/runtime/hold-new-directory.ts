// A process that makes a new data directory, has the whole of it on the disk, and keeps its lock until it is killed.

import { mkdir } from "node:fs/promises";
import { lockDirectory } from "../../../src/state/embedded/directory-lock.ts";
import { openPgliteDatabase } from "../../../src/state/embedded/pglite-database.ts";

const dataDirectory = process.argv[2] ?? "";
await mkdir(dataDirectory, { recursive: true });
using _lock = lockDirectory(dataDirectory);
{
  // Its end waits for everything that goes on in the background after an opening.
  await using _open = await openPgliteDatabase(dataDirectory, (error) => console.error(error));
}
console.log("locked");
await new Promise(() => setInterval(() => {}, 60_000));
