// `bun run release` writes dist/release: an archive for each kind of Linux, the bill of materials and the licenses of what is inside, and
// the checksums of all for `sha256sum -c SHA256SUMS`.

import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import manifest from "../../package.json" with { type: "json" };
import { compile, prepare, root } from "../compile.ts";
import { readContents } from "./contents.ts";
import { formatLicenses } from "./license-texts.ts";
import { formatSbom } from "./sbom.ts";

/** Name in the archive → bun's target. */
const targets = {
  "linux-x64": "bun-linux-x64",
  "linux-arm64": "bun-linux-arm64",
  "linux-x64-musl": "bun-linux-x64-musl",
  "linux-arm64-musl": "bun-linux-arm64-musl",
};

/** What lies beside the archives, and in each of them. */
const sbomName = `millrace-${manifest.version}.cdx.json`;
const licensesName = "THIRD_PARTY_LICENSES.txt";

const release = join(root, "dist", "release");
await rm(release, { recursive: true, force: true });
await mkdir(release, { recursive: true });
await prepare();
const checksums: string[] = [];
// All kinds hold the same.
const metafile = join(release, "metafile.json");
await compile(join(release, "millrace"), null, metafile);
const contents = await readContents(metafile);
for (const file of ["millrace", "metafile.json"]) await rm(join(release, file));
await Bun.write(join(release, sbomName), formatSbom(contents));
await Bun.write(join(release, licensesName), await formatLicenses(contents));
for (const file of [sbomName, licensesName]) {
  checksums.push(`${await checksum(join(release, file))}  ${file}\n`);
  console.log(`dist/release/${file}`);
}
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
    for (const file of [sbomName, licensesName]) await cp(join(release, file), join(folder, file));
    for (const part of ["deploy", "docs"])
      await cp(join(root, part), join(folder, part), { recursive: true });
    // A fixed order, owner and time make the archive reproducible.
    await $`tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - -C ${directory} millrace | gzip -9n > ${archive}`;
    return await checksum(archive);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function checksum(path: string): Promise<string> {
  return new Bun.CryptoHasher("sha256").update(await Bun.file(path).arrayBuffer()).digest("hex");
}
