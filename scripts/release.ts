// `bun run release` writes dist/release: an archive for each kind of Linux, and their checksums for `sha256sum -c
// SHA256SUMS`.

import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import manifest from "../package.json" with { type: "json" };
import { compile, prepare, root } from "./compile.ts";

/** Name in the archive → bun's target. */
const targets = {
  "linux-x64": "bun-linux-x64",
  "linux-arm64": "bun-linux-arm64",
  "linux-x64-musl": "bun-linux-x64-musl",
  "linux-arm64-musl": "bun-linux-arm64-musl",
};

const release = join(root, "dist", "release");
await rm(release, { recursive: true, force: true });
await mkdir(release, { recursive: true });
await prepare();
const checksums: string[] = [];
for (const [name, target] of Object.entries(targets)) {
  const archive = `millrace-${manifest.version}-${name}.tar.gz`;
  checksums.push(`${await pack(target, join(release, archive))}  ${archive}\n`);
  console.log(`dist/release/${archive}`);
}
await Bun.write(join(release, "SHA256SUMS"), checksums.join(""));
console.log("dist/release/SHA256SUMS");

/** Returns the archive's checksum. */
async function pack(target: string, archive: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "millrace-release-"));
  try {
    const folder = join(directory, "millrace");
    await compile(join(folder, "millrace"), target);
    for (const file of ["LICENSE", "README.md"]) await cp(join(root, file), join(folder, file));
    for (const part of ["deploy", "docs"])
      await cp(join(root, part), join(folder, part), { recursive: true });
    // A fixed order, owner and time make the archive reproducible.
    await $`tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - -C ${directory} millrace | gzip -9n > ${archive}`;
    return new Bun.CryptoHasher("sha256").update(await Bun.file(archive).arrayBuffer()).digest("hex");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
