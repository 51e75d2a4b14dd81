// Finds the documentation's files: embedded in the binary, or beside the sources.

import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

/** The build embeds the directory of this name at the binary's root, which is every module's directory there. */
export const documentsDirectoryName = "docs";

const embedded = join(import.meta.dir, documentsDirectoryName);
const sources = join(import.meta.dir, "..", "..", "..", documentsDirectoryName);
const directory = existsSync(embedded) ? embedded : sources;

/** Of pictures, by the end of the name. */
export const pictureTypes: Readonly<Record<string, string>> = { svg: "image/svg+xml", webp: "image/webp" };

/** Names of all files. */
export function documentNames(): Promise<string[]> {
  return readdir(directory);
}

/** @param name one of `documentNames` */
export function readDocument(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return Bun.file(join(directory, name)).bytes();
}
