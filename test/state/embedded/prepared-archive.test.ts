// What a first start unpacks: the state's own database alone.

import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { DurableNodeFs, durableStartParameters } from "../../../src/state/embedded/durable-node-fs.ts";
import { loadPgliteFiles } from "../../../src/state/embedded/pglite-files.ts";
import { unpackPrepared } from "../../../src/state/embedded/prepared-archive.ts";

test("a new state has no database but its own, so that a freeze reaches every transaction's age", async () => {
  const parent = await mkdtemp(join(tmpdir(), "millrace-test-"));
  try {
    const directory = join(parent, "pglite");
    await unpackPrepared(directory);
    expect(existsSync(join(directory, "base", "1"))).toBe(false);
    const parameters = { fs: new DurableNodeFs(directory), startParams: durableStartParameters() };
    const client = await PGlite.create({ ...parameters, ...(await loadPgliteFiles()) });
    const names = await client.query<{ datname: string }>("select datname from pg_database");
    await client.exec("vacuum (freeze)");
    const oldest = await client.query<{ age: number }>("select max(age(datfrozenxid)) age from pg_database");
    await client.close();
    expect(names.rows).toEqual([{ datname: "postgres" }]);
    expect(oldest.rows[0]?.age).toBeLessThan(10);
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});
