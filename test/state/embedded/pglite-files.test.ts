// What a build embeds of PGlite: what is installed, without what a prepared directory never needs.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installedPgliteFile } from "../../../src/state/embedded/embedded-files.ts";
import { compressPgliteFiles, embeddedPgliteFiles } from "../../../src/state/embedded/pglite-files.ts";
import { inPglite } from "../../support/runtime/in-pglite.ts";

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-pglite-files-"));
  await compressPgliteFiles(directory);
}, 60_000);

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

const compressedBytes = (name: string) => Bun.file(join(directory, name)).bytes();

async function embeddedBytes(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await Bun.zstdDecompress(await compressedBytes(name)));
}

test("the programs are those that are installed, and all of it is a third of its size", async () => {
  let [size, compressedSize] = [0, 0];
  for (const name of embeddedPgliteFiles) {
    const installed = await Bun.file(installedPgliteFile(name.replace(/\.zst$/, ""))).bytes();
    const embedded = await embeddedBytes(name);
    expect(embedded).toHaveLength(installed.length);
    if (name.includes(".wasm")) expect(Buffer.compare(embedded, installed)).toBe(0);
    size += installed.length;
    compressedSize += (await compressedBytes(name)).length;
  }
  expect(embeddedPgliteFiles).toHaveLength(3);
  expect(compressedSize).toBeLessThan(size / 3);
});

test("its data has what was installed, or nothing: of six megabytes one and a half are left", async () => {
  const installed = await Bun.file(installedPgliteFile("pglite.data")).bytes();
  const embedded = await embeddedBytes("pglite.data.zst");
  expect(embedded.every((byte, at) => byte === 0 || byte === installed[at])).toBe(true);
  const kept = embedded.filter((byte) => byte !== 0).length;
  expect(kept).toBeGreaterThan(200_000);
  expect(kept).toBeLessThan(1_500_000);
});

test("a server has with it all that a state asks for", async () => {
  const fsBundle = new Blob([await embeddedBytes("pglite.data.zst")]);
  await inPglite(
    async (client) => {
      await client.exec("create function told() returns int language plpgsql as 'begin return 7; end'");
      const { rows } = await client.query(
        `select told(), ('2026-01-01 00:00+00'::timestamptz at time zone 'Europe/Berlin')::text as local, '2026-01-01 00:00 EST'::timestamptz as short,
          (select count(*)::int from pg_timezone_names) > 500 as zones, array(select x from unnest('{b,ä,a}'::text[]) x order by x) as sorted,
          lower('Ä') as lower, '{"a": 1}'::jsonb as json, gen_random_uuid()::text ~ '^[0-9a-f-]{36}$' as random`,
      );
      expect(rows).toEqual([
        {
          told: 7,
          local: "2026-01-01 01:00:00",
          short: new Date("2026-01-01T05:00:00Z"),
          zones: true,
          sorted: ["a", "b", "ä"],
          lower: "ä",
          json: { a: 1 },
          random: true,
        },
      ]);
      await client.exec("vacuum analyze");
    },
    { fsBundle },
  );
});
