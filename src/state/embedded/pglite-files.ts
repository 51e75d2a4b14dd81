// PGlite's program files, by paths that are valid in the sources and in the compiled binary.

import initdbPath from "../../../node_modules/@electric-sql/pglite/dist/initdb.wasm" with { type: "file" };
import fsBundlePath from "../../../node_modules/@electric-sql/pglite/dist/pglite.data" with { type: "file" };
import pglitePath from "../../../node_modules/@electric-sql/pglite/dist/pglite.wasm" with { type: "file" };

export interface PgliteFiles {
  readonly pgliteWasmModule: WebAssembly.Module;
  readonly initdbWasmModule: WebAssembly.Module;
  readonly fsBundle: Blob;
}

/** Reads and compiles the files, in about 0.1 s. */
export async function loadPgliteFiles(): Promise<PgliteFiles> {
  const [pgliteWasmModule, initdbWasmModule] = await Promise.all([compile(pglitePath), compile(initdbPath)]);
  return { pgliteWasmModule, initdbWasmModule, fsBundle: Bun.file(fsBundlePath) };
}

async function compile(path: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await Bun.file(path).bytes());
}
