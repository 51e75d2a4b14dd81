// Clusters that initdb has made once for each build of Postgres, to be copied: with a system identifier of their own each, as what tells
// servers apart would take them for one.
// https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_control.h

import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { $ } from "bun";
import type { FillDirectory } from "../../../src/demo/postgres-server.ts";

const templates = resolve(
  import.meta.dirname,
  "..",
  "..",
  "..",
  "node_modules",
  ".cache",
  "millrace-clusters",
);
/** Of `XLogLongPageHeaderData`, at the beginning of each segment. */
const identifierInSegment = 24;

export const fromTemplate: FillDirectory = async (dataDirectory, initdb, bin) => {
  const template = join(templates, keyOf(bin));
  if (!existsSync(template)) {
    await initdb();
    await keep(dataDirectory, template);
    return;
  }
  await $`cp -a ${template} ${dataDirectory}`.quiet();
  await identifyAnew(dataDirectory);
};

/** A build of another place or time is another one. */
function keyOf(bin: string): string {
  const { mtimeMs, size } = statSync(join(bin, "postgres"));
  return Bun.hash(`${bin} ${mtimeMs} ${size}`).toString(36);
}

/** Whole or not at all; somebody else may have been faster. */
async function keep(dataDirectory: string, template: string): Promise<void> {
  await mkdir(templates, { recursive: true });
  const draft = join(templates, `draft-${randomUUID()}`);
  await $`cp -a ${dataDirectory} ${draft}`.quiet();
  await rename(draft, template).catch(() => rm(draft, { recursive: true }));
}

async function identifyAnew(dataDirectory: string): Promise<void> {
  const identifier = randomBytes(8);
  // It is read as a signed number, too.
  identifier[7]! &= 0x7f;
  const controlPath = join(dataDirectory, "global", "pg_control");
  const control = await readFile(controlPath);
  const crcAt = endOfChecked(control);
  identifier.copy(control, 0);
  control.writeUInt32LE(crc32c(control.subarray(0, crcAt)), crcAt);
  await writeFile(controlPath, control);
  const log = join(dataDirectory, "pg_wal");
  for (const segment of await readdir(log)) {
    if (!/^[0-9A-F]{24}$/.test(segment)) continue;
    await using file = await open(join(log, segment), "r+");
    await file.write(identifier, 0, identifier.length, identifierInSegment);
  }
}

/** Where the checksum stands differs from version to version: it is that of all before it. */
function endOfChecked(control: Buffer): number {
  for (let at = 8; at < 1_024; at += 4) {
    if (control.readUInt32LE(at) === crc32c(control.subarray(0, at))) return at;
  }
  throw new Error("pg_control has no checksum");
}

function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ table[(crc ^ byte) & 255]!;
  return (crc ^ 0xffffffff) >>> 0;
}

/** Castagnoli's polynomial, reflected. */
const table = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});
