// A PGlite directory with the tables already created, as an archive. It is made once, by the build or by the first
// start from the sources. So a first start unpacks files instead of running initdb (3 s, 1 GB).

import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/pglite";
import pgliteManifest from "../../../node_modules/@electric-sql/pglite/package.json";
import { migrate } from "../migrations.ts";
import * as schema from "../schema.ts";
import {
  embeddedFile,
  migrationsDirectory,
  preparedArchiveName,
  sourceCacheDirectory,
} from "./embedded-files.ts";
import { loadPgliteFiles } from "./pglite-files.ts";

/** Small WAL segments keep the directory small. */
const initdbParameters = ["--wal-segsize=1"];

/**
 * Unpacks the prepared directory to `directory`, which is missing or empty, completely or not at all. Does nothing if there
 * is no archive and no place to cache one: PGlite then creates the directory itself.
 */
export async function unpackPrepared(directory: string): Promise<void> {
  const archive = embeddedFile(preparedArchiveName) ?? (await cachedArchive());
  if (archive === null) return;
  const draft = `${directory}.unpacking`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true, mode: 0o700 });
  await new Bun.Archive(await Bun.file(archive).bytes()).extract(draft);
  const list = join(draft, directoryList);
  const directories: string[] = await Bun.file(list).json();
  await Promise.all(directories.map((path) => mkdir(join(draft, path), { recursive: true, mode: 0o700 })));
  await rm(list);
  await rename(draft, directory);
}

/** Creates the archive at `path`. */
export async function prepareArchive(path: string): Promise<void> {
  const temporary = await mkdtemp(join(tmpdir(), "millrace-prepare-"));
  const directory = join(temporary, "pglite");
  try {
    const options = { dataDir: directory, initDbStartParams: initdbParameters };
    const client = await PGlite.create({ ...options, ...(await loadPgliteFiles()) });
    await migrate(drizzle(client, { schema }));
    await dropTemplates(client);
    // A clean shutdown, so that the unpacked directory needs no recovery at its first start.
    await client.close();
    await mkdir(dirname(path), { recursive: true });
    const draft = `${path}.${process.pid}`;
    await Bun.Archive.write(draft, await readTree(directory), { compress: "gzip", level: 9 });
    await rename(draft, path);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/**
 * Drops the databases that others are made from: two thirds of the files. A freeze does not reach them either, so that
 * the age of their transactions would stop a state one day.
 */
async function dropTemplates(client: PGlite): Promise<void> {
  await client.exec("UPDATE pg_database SET datistemplate = false WHERE datname <> current_database()");
  for (const name of ["template0", "template1"]) await client.exec(`DROP DATABASE ${name}`);
}

/** An archive contains files only, and Postgres needs its empty directories too. */
const directoryList = "directories.json";

async function readTree(directory: string): Promise<Record<string, Uint8Array | string>> {
  const files: Record<string, Uint8Array | string> = {};
  const directories: string[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = relative(directory, join(entry.parentPath, entry.name));
    if (entry.isDirectory()) directories.push(path);
    else files[path] = await Bun.file(join(directory, path)).bytes();
  }
  return { ...files, [directoryList]: JSON.stringify(directories) };
}

/** The archive cached by the sources. Its name covers everything that it depends on. */
async function cachedArchive(): Promise<string | null> {
  const cache = sourceCacheDirectory();
  if (cache === null) return null;
  const hash = new Bun.CryptoHasher("sha256").update(`3 ${pgliteManifest.version} ${initdbParameters}`);
  const migrations = migrationsDirectory();
  for (const name of (await readdir(migrations)).filter((file) => file.endsWith(".sql")).sort()) {
    hash.update(name).update(await Bun.file(join(migrations, name)).bytes());
  }
  const path = join(cache, `pglite-${hash.digest("hex").slice(0, 16)}.tar.gz`);
  if (!(await Bun.file(path).exists())) await prepareArchive(path);
  return path;
}
