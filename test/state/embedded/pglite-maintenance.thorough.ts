// The embedded database stays small however much is written to it, and reports failed maintenance.

import { expect, test } from "bun:test";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { startMaintenance } from "../../../src/state/embedded/pglite-maintenance.ts";
import { inPglite } from "../../support/runtime/in-pglite.ts";
import { waitFor } from "../../support/wait-for.ts";

async function sizeOf(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size;
  }
  return bytes;
}

test("overwriting many times the limit leaves tables and WAL small", async () => {
  await inPglite(async (client, directory) => {
    const before = await sizeOf(directory);
    const failures: unknown[] = [];
    {
      const options = { intervalMs: 20, walBytes: 1_000_000 };
      await using _maintenance = startMaintenance(client, (error) => failures.push(error), options);
      await client.query("insert into millrace.settings values ('record', '')");
      for (let round = 0; round < 1_500; round++) {
        // Incompressible, so that each version has its full size.
        const value = Buffer.from(crypto.getRandomValues(new Uint8Array(12_000))).toString("base64");
        await client.query("update millrace.settings set value = $1", [value]);
        if (round % 50 === 0) await new Promise(setImmediate);
      }
    }
    await client.close();
    expect(failures).toEqual([]);
    expect((await sizeOf(directory)) - before).toBeLessThan(20_000_000);
  });
});

test("what triggers tell is heard by nobody, and takes no room", async () => {
  await inPglite(async (client, directory) => {
    await client.query(
      `insert into millrace.connectors (id, slot_name, sealed_config, stopped, initialized, run_id, created_at)
       values ('shop', 'shop', '', false, false, gen_random_uuid(), now())`,
    );
    const before = await sizeOf(join(directory, "pg_notify"));
    // Larger by far than the pages that Postgres keeps of what is told.
    const update = "update millrace.connectors set stopped = not stopped";
    for (let round = 0; round < 2_000; round++)
      await client.exec(`${update}; select pg_notify('millrace', '${"x".repeat(1_000)}')`);
    const { rows } = await client.query<{ used: number }>("select pg_notification_queue_usage() as used");
    expect(rows[0]?.used).toBeLessThan(0.001);
    expect((await sizeOf(join(directory, "pg_notify"))) - before).toBeLessThan(1_000_000);
  });
});

test("a failed round is reported, and the next round runs", async () => {
  await inPglite(async (client) => {
    await client.close();
    let failures = 0;
    const count = () => {
      failures += 1;
    };
    await using _maintenance = startMaintenance(client, count, { intervalMs: 5, walBytes: 1 });
    await waitFor("two failed rounds", () => failures >= 2);
  });
});
