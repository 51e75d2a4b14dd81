// Finds the console's assets: embedded in the binary, or made from the sources.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { assetNames, bundleConsole, type ConsoleAssets } from "./bundle-console.ts";

/** The build embeds the directory of this name at the binary's root, which is every module's directory there. */
export const embeddedDirectoryName = "console-bundle";

const embedded = join(import.meta.dir, embeddedDirectoryName);
const sources = join(import.meta.dir, "..", "..", "..", "console");

export async function readConsoleAssets(): Promise<ConsoleAssets> {
  if (!existsSync(embedded)) return (await bundleConsole(sources)).assets;
  const files = assetNames.map(async (name) => [name, await Bun.file(join(embedded, name)).bytes()] as const);
  return Object.fromEntries(await Promise.all(files)) as ConsoleAssets;
}
