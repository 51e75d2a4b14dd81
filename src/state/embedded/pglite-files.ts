// PGlite's program files: as they are installed beside the sources, and compressed in the compiled binary. What is read of a
// binary counts as the process's memory from then on.

import { join } from "node:path";
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
    // They may lie in a larger buffer.
    return bytes.length === bytes.buffer.byteLength ? bytes.buffer : bytes.slice().buffer;
  }
}

/** Writes the files that a build embeds to `directory`. */
export async function compressPgliteFiles(directory: string): Promise<void> {
  const compress = async (name: PgliteFileName) => {
    const bytes = await Bun.file(installedPgliteFile(name)).bytes();
    await Bun.write(
      join(directory, compressed(name)),
      await Bun.zstdCompress(bytes, { level: compressionLevel }),
    );
  };
  await Promise.all(names.map(compress));
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
