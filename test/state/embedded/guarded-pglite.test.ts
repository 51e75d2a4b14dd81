// The embedded database exits where Postgres would: it reports the error, blocks nothing, and keeps what it had
// committed.

import { expect, test } from "bun:test";
import { fsyncSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { StreamGarbage } from "../../../src/memory/stream-garbage.ts";
import { DurableNodeFs, durableStartParameters } from "../../../src/state/embedded/durable-node-fs.ts";
import { guardPglite } from "../../../src/state/embedded/guarded-pglite.ts";
import { loadPgliteFiles } from "../../../src/state/embedded/pglite-files.ts";
import { unpackPrepared } from "../../../src/state/embedded/prepared-archive.ts";

test("a commit that the disk refuses is an error and ends the database, and earlier commits are kept", async () => {
  const parent = await mkdtemp(join(tmpdir(), "millrace-test-"));
  try {
    const directory = join(parent, "pglite");
    await unpackPrepared(directory);
    let isFailing = false;
    const fsync = (descriptor: number) => {
      if (isFailing) throw Object.assign(new Error("the disk is gone"), { code: "EIO" });
      fsyncSync(descriptor);
    };
    const open = async () => {
      const parameters = { fs: new DurableNodeFs(directory, fsync), startParams: durableStartParameters() };
      return PGlite.create({ ...parameters, ...(await loadPgliteFiles()) });
    };
    const insert = (client: PGlite, name: string) =>
      client.query("insert into millrace.settings values ($1, '')", [name]);
    const client = await open();
    const { died } = guardPglite(client);
    await insert(client, "kept");
    await expect(insert(client, "kept")).rejects.toMatchObject({ code: "23505" });
    expect(died.aborted).toBe(false);

    isFailing = true;
    await expect(insert(client, "lost")).rejects.toThrow("could not fsync");
    expect(died.reason).toMatchObject({ code: "state_unavailable" });
    isFailing = false;
    await expect(insert(client, "late")).rejects.toMatchObject({ code: "state_unavailable" });

    const next = await open();
    const { rows } = await next.query<{ name: string }>("select name from millrace.settings");
    await next.close();
    expect(rows.map(({ name }) => name)).toContain("kept");
    expect(rows.map(({ name }) => name)).not.toContain("late");
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});

test("the garbage of calls is collected: beside the program's memory the collector would let a hundred megabytes of it be", async () => {
  const parent = await mkdtemp(join(tmpdir(), "millrace-test-"));
  try {
    const directory = join(parent, "pglite");
    await unpackPrepared(directory);
    const fs = new DurableNodeFs(directory);
    const client = await PGlite.create({
      fs,
      startParams: durableStartParameters(),
      ...(await loadPgliteFiles()),
    });
    const collected = { young: 0, all: 0 };
    const collector = {
      young: () => void collected.young++,
      all: () => void collected.all++,
      // As the collector sees it, with the program's memory in it.
      heapBytes: () => 300 * 1024 * 1024,
      residentBytes: () => 300 * 1024 * 1024,
    };
    guardPglite(client, new StreamGarbage(0, collector));
    for (let i = 0; i < 2_000; i++) await client.query("select $1", ["text"]);
    await client.close();
    // What is young goes often, as that is cheap; all else rarely.
    expect(collected.young).toBeGreaterThan(20);
    expect(collected.all).toBeGreaterThan(0);
    expect(collected.all).toBeLessThan(3);
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});
