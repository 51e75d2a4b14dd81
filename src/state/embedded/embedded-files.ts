// Locates the files that the build embeds unchanged: next to the sources, or at the binary's root.

import { existsSync } from "node:fs";
import { join } from "node:path";

/** In the compiled binary every module's directory is the binary's root, and the assets are below it. */
const sourceRoot = join(import.meta.dir, "..", "..", "..");

/** The directory of the generated migrations. */
export function migrationsDirectory(): string {
  return firstExisting([join(import.meta.dir, "drizzle"), join(sourceRoot, "drizzle")]) ?? "drizzle";
}

/** A file that the build embeds at the binary's root under its own name; null when run from the sources. */
export function embeddedFile(name: string): string | null {
  return firstExisting([join(import.meta.dir, name)]);
}

/** A file of PGlite's package, which is there when run from the sources. */
export function installedPgliteFile(name: string): string {
  return join(sourceRoot, "node_modules", "@electric-sql", "pglite", "dist", name);
}

/** The prepared PGlite directory. */
export const preparedArchiveName = "pglite-prepared.tar.gz";

/** Where a run from the sources caches what it prepares; null outside a checkout with installed packages. */
export function sourceCacheDirectory(): string | null {
  const packages = join(sourceRoot, "node_modules");
  return sourceRoot !== "/" && existsSync(packages) ? join(packages, ".cache", "millrace") : null;
}

function firstExisting(paths: readonly string[]): string | null {
  return paths.find((path) => existsSync(path)) ?? null;
}
