import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installedPgliteFile } from "../../../src/state/embedded/embedded-files.ts";
import { compressPgliteFiles, embeddedPgliteFiles } from "../../../src/state/embedded/pglite-files.ts";

test("what a build embeds of PGlite is what is installed, in a third of its size", async () => {
  const directory = await mkdtemp(join(tmpdir(), "millrace-pglite-files-"));
  try {
    await compressPgliteFiles(directory);
    expect(embeddedPgliteFiles).toHaveLength(3);
    let [size, compressedSize] = [0, 0];
    for (const name of embeddedPgliteFiles) {
      const compressed = await Bun.file(join(directory, name)).bytes();
      const installed = await Bun.file(installedPgliteFile(name.replace(/\.zst$/, ""))).bytes();
      expect(Buffer.compare(await Bun.zstdDecompress(compressed), installed)).toBe(0);
      size += installed.length;
      compressedSize += compressed.length;
    }
    expect(compressedSize).toBeLessThan(size / 3);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}, 60_000);
