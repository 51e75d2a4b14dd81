// `bun run build` writes dist/millrace for this machine. `--target=bun-linux-arm64` and the like build for another one. `--licenses` also
// writes the licenses of what is inside, which an image has to hold.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { compile, prepare, root } from "./compile.ts";
import { readContents } from "./release/contents.ts";
import { formatLicenses } from "./release/license-texts.ts";

const outfile = join(root, "dist", "millrace");
const prefix = "--target=";
const target = process.argv.find((argument) => argument.startsWith(prefix))?.slice(prefix.length) ?? null;
const metafile = process.argv.includes("--licenses") ? join(root, "dist", "metafile.json") : null;

await prepare();
await compile(outfile, target, metafile);
if (metafile !== null) {
  const licenses = await formatLicenses(await readContents(metafile));
  await Bun.write(join(root, "dist", "THIRD_PARTY_LICENSES.txt"), licenses);
}
const { size } = await stat(outfile);
console.log(`dist/millrace: ${(size / 1_000_000).toFixed(0)} MB`);
