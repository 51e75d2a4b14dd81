// `bun run build` writes dist/millrace for this machine. `--target=bun-linux-arm64` and the like build for another one.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { compile, prepare, root } from "./compile.ts";

const outfile = join(root, "dist", "millrace");
const prefix = "--target=";
const target = process.argv.find((argument) => argument.startsWith(prefix))?.slice(prefix.length) ?? null;

await prepare();
await compile(outfile, target);
const { size } = await stat(outfile);
console.log(`dist/millrace: ${(size / 1_000_000).toFixed(0)} MB`);
