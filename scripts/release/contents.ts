// What is inside the program beside its own sources: the packages whose files the bundler has taken in, the Postgres that PGlite is, and Bun.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { root } from "../compile.ts";

export interface InsidePackage {
  /** Its folder, from the project's. */
  readonly folder: string;
  readonly manifest: PackageManifest;
}

export interface PackageManifest {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  /** As SPDX has it. */
  readonly license: string;
  readonly author?: string | { readonly name: string };
  readonly homepage?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Some packages name their license in the form from before `license`. */
type StoredManifest = Omit<PackageManifest, "license"> & {
  readonly license?: string;
  readonly licenses?: readonly { readonly type: string }[];
};

export interface Contents {
  /** By folder. */
  readonly packages: readonly InsidePackage[];
  readonly bunVersion: string;
  /** Of the server that is inside PGlite. */
  readonly postgresVersion: string;
}

interface Metafile {
  readonly inputs: Readonly<Record<string, unknown>>;
}

/** `metafile`: what the bundler wrote about the program. */
export async function readContents(metafile: string): Promise<Contents> {
  const { inputs } = JSON.parse(await readFile(metafile, "utf8")) as Metafile;
  const folders = new Set(Object.keys(inputs).flatMap((path) => packageFolder(path) ?? []));
  const packages = await Promise.all([...folders].sort().map(readPackage));
  return { packages, bunVersion: Bun.version, postgresVersion: await embeddedPostgresVersion() };
}

/** `node_modules/a/node_modules/@b/c` for a file of the innermost package; null for one of ours. */
function packageFolder(path: string): string | null {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? null;
}

async function readPackage(folder: string): Promise<InsidePackage> {
  const read = JSON.parse(await readFile(join(root, folder, "package.json"), "utf8")) as StoredManifest;
  const license = read.license ?? read.licenses?.map(({ type }) => type).join(" OR ");
  if (!license) throw new Error(`${folder} names no license`);
  return { folder, manifest: { ...read, license } };
}

async function embeddedPostgresVersion(): Promise<string> {
  const database = new PGlite();
  try {
    const { rows } = await database.query<{ server_version: string }>("show server_version");
    return rows[0]!.server_version;
  } finally {
    await database.close();
  }
}
