// Where the files stand that the build embeds as they are: beside the sources, or at the binary's root.

import { existsSync } from "node:fs";
import { join } from "node:path";

/** In the compiled binary every module's directory is the binary's root, and the assets are kept under it. */
const sourceRoot = join(import.meta.dir, "..", "..");

/** The directory of the generated migrations. */
export function migrationsDirectory(): string {
  return firstExisting([join(import.meta.dir, "drizzle"), join(sourceRoot, "drizzle")]) ?? "drizzle";
}

/** The prepared PGlite directory that the build embeds, or null in the sources. */
export function embeddedPreparedArchive(): string | null {
  return firstExisting([join(import.meta.dir, preparedArchivePath)]);
}

/** Its path under the project's root at build time, and under the binary's root afterwards. */
export const preparedArchivePath = "dist/prepared/pglite.tar.gz";

function firstExisting(paths: readonly string[]): string | null {
  return paths.find((path) => existsSync(path)) ?? null;
}
