// A new embedded database as the state opens it, in a directory of its own.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { DurableNodeFs, durableStartParameters } from "../../../src/state/embedded/durable-node-fs.ts";
import { loadPgliteFiles, type PgliteFiles } from "../../../src/state/embedded/pglite-files.ts";
import { unpackPrepared } from "../../../src/state/embedded/prepared-archive.ts";

/** `change`: other files of its program. */
export async function inPglite(
  use: (client: PGlite, directory: string) => Promise<void>,
  change: Partial<PgliteFiles> = {},
): Promise<void> {
  const parent = await mkdtemp(join(tmpdir(), "millrace-test-"));
  try {
    const directory = join(parent, "pglite");
    await unpackPrepared(directory);
    const parameters = { fs: new DurableNodeFs(directory), startParams: durableStartParameters() };
    const client = await PGlite.create({ ...parameters, ...(await loadPgliteFiles()), ...change });
    try {
      await use(client, directory);
    } finally {
      if (!client.closed) await client.close();
    }
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
}
