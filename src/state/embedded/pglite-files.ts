// PGlite's program files: as they are installed beside the sources, and compressed in the compiled binary, without what is never read there.
// What is read of a binary counts as the process's memory from then on.

import { join } from "node:path";
import { releaseBytes } from "../../memory/release-bytes.ts";
import { embeddedFile, installedPgliteFile } from "./embedded-files.ts";

export interface PgliteFiles {
  readonly pgliteWasmModule: WebAssembly.Module;
  readonly initdbWasmModule: WebAssembly.Module;
  readonly fsBundle: Blob;
}

const names = ["pglite.wasm", "initdb.wasm", "pglite.data"] as const;
type PgliteFileName = (typeof names)[number];

/** The names under which a build embeds them. */
export const embeddedPgliteFiles: readonly string[] = names.map(compressed);

/** The highest one takes a build twenty seconds, for 0.7 MB less. */
const compressionLevel = 12;

/**
 * Files in `pglite.data` that only initdb, extensions or other encodings need: five of its six megabytes. A compiled binary has a prepared
 * directory, and needs none of them.
 */
const unread =
  /\/(pgxs|icu|tsearch_data)\/|_and_\w+\.so$|\/(dict_snowball|libpqwalreceiver|pgoutput)\.so$|\/postgres\.bki$|\/share\/postgresql\/\w+\.sql$/;
const pageBytes = 4096;

const compiled = new Map<PgliteFileName, Promise<WebAssembly.Module>>();

/** Reads and compiles the files, in about 0.1 s; a second state of the same process takes what was compiled. */
export async function loadPgliteFiles(): Promise<PgliteFiles> {
  const [pgliteWasmModule, initdbWasmModule] = await Promise.all([
    compile("pglite.wasm"),
    compile("initdb.wasm"),
  ]);
  return { pgliteWasmModule, initdbWasmModule, fsBundle: new BundleFile() };
}

/** Read when PGlite asks for it, which keeps what it gets: a Blob of the bytes would be a second copy. */
class BundleFile extends Blob {
  override async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = await read("pglite.data");
    const sparse = sparseCopy(bytes);
    releaseBytes(bytes);
    return sparse.buffer;
  }
}

/** A page of zeros is not written: it takes no memory then. */
function sparseCopy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes.length);
  const zeros = new Uint8Array(pageBytes);
  for (let at = 0; at < bytes.length; at += pageBytes) {
    const page = bytes.subarray(at, at + pageBytes);
    if (Buffer.compare(page, zeros.subarray(0, page.length)) !== 0) copy.set(page, at);
  }
  return copy;
}

/** Writes the files that a build embeds to `directory`. */
export async function compressPgliteFiles(directory: string): Promise<void> {
  const compress = async (name: PgliteFileName) => {
    const bytes = await Bun.file(installedPgliteFile(name)).bytes();
    if (name === "pglite.data") await blankUnread(bytes);
    await Bun.write(
      join(directory, compressed(name)),
      await Bun.zstdCompress(bytes, { level: compressionLevel }),
    );
  };
  await Promise.all(names.map(compress));
}

/** Their places are in PGlite's own program. Throws if they are not those of `bundle`. */
async function blankUnread(bundle: Uint8Array): Promise<void> {
  const program = await Bun.file(installedPgliteFile("pglite.js")).text();
  const files = [...program.matchAll(/filename:"([^"]+)",start:(\d+),end:(\d+)/g)];
  if (Number(files.at(-1)?.[3]) !== bundle.length)
    throw new Error("pglite.js does not tell what is in pglite.data");
  for (const [, name, start, end] of files)
    if (unread.test(name!)) bundle.fill(0, Number(start), Number(end));
}

function compile(name: PgliteFileName): Promise<WebAssembly.Module> {
  return compiled.getOrInsertComputed(name, async () => WebAssembly.compile(await read(name)));
}

async function read(name: PgliteFileName): Promise<Uint8Array<ArrayBuffer>> {
  const embedded = embeddedFile(compressed(name));
  if (embedded === null) return await Bun.file(installedPgliteFile(name)).bytes();
  const bytes = await Bun.zstdDecompress(await Bun.file(embedded).bytes());
  return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
}

function compressed(name: PgliteFileName): string {
  return `${name}.zst`;
}
