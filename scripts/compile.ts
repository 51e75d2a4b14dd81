// Compiles the program into one file with everything in it: both workers, the migrations, PGlite with a prepared data
// directory, the console, the documentation, and Swagger UI.

import { mkdir, rm } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { bundleConsole } from "../src/api/console/bundle-console.ts";
import { embeddedDirectoryName } from "../src/api/console/console-assets.ts";
import { documentsDirectoryName } from "../src/api/documents/document-files.ts";
import { preparedArchiveName } from "../src/state/embedded/embedded-files.ts";
import { compressPgliteFiles, embeddedPgliteFiles } from "../src/state/embedded/pglite-files.ts";
import { prepareArchive } from "../src/state/embedded/prepared-archive.ts";

export const root = join(import.meta.dir, "..");
const preparedArchive = join("dist", preparedArchiveName);
const consoleBundle = join("dist", embeddedDirectoryName);
const assets = [
  ...["drizzle", preparedArchive, consoleBundle, documentsDirectoryName],
  ...embeddedPgliteFiles.map((name) => join("dist", name)),
];
/** What the bundler knows of the console's contents, beside those of the program. */
const consoleMetafile = join(root, "dist", "console-metafile.json");

/** Prepares what every build contains. Several builds can share one call. */
export async function prepare(): Promise<void> {
  await mkdir(join(root, "dist"), { recursive: true });
  await compressPgliteFiles(join(root, "dist"));
  await prepareArchive(join(root, preparedArchive));
  await prepareConsole();
}

async function prepareConsole(): Promise<void> {
  const { assets, inputs } = await bundleConsole(join(root, "console"));
  const directory = join(root, consoleBundle);
  // Nothing of an earlier build is embedded.
  await rm(directory, { recursive: true, force: true });
  for (const [name, bytes] of Object.entries(assets)) await Bun.write(join(directory, name), bytes);
  const paths = inputs.map((path) => [relative(root, resolve(path)), {}]);
  await Bun.write(consoleMetafile, JSON.stringify({ inputs: Object.fromEntries(paths) }));
}

/**
 * @param outfile the path of the binary
 * @param target another platform, as bun names it (`bun-linux-arm64-musl`); null for this one
 * @param metafile where to write what the bundler knows of the program's contents; null: nowhere
 * @throws if bun fails, or if the binary contains paths of this machine
 */
export async function compile(
  outfile: string,
  target: string | null,
  metafile: string | null = null,
): Promise<void> {
  await mkdir(dirname(outfile), { recursive: true });
  const child = Bun.spawn(
    [
      process.execPath,
      "build",
      "--compile",
      // ssh2 tries to load it, and works without it.
      ...["--external", "cpu-features"],
      // The replication library loads it for a plugin that is not used.
      ...["--external", "protobufjs"],
      // Parsing ahead of time saves 0.15 s at each start.
      ...["--bytecode", "--format=esm"],
      // What program and workers share is there once: 12 MB less on the disk, and 10 MB in memory.
      "--splitting",
      // Elysia analyses its handlers' source, and renamed identifiers break that.
      ...["--minify-whitespace", "--minify-syntax", "--keep-names"],
      // Otherwise packages that read their directory would get its path on this machine.
      ...["--define", '__dirname="/"', "--define", '__filename="/"'],
      // Files next to the binary must not change what it does.
      ...["--no-compile-autoload-dotenv", "--no-compile-autoload-bunfig"],
      ...assets.flatMap((path) => ["--asset", path]),
      ...(target === null ? [] : [`--target=${target}`]),
      ...(metafile === null ? [] : [`--metafile=${metafile}`]),
      ...["--outfile", outfile],
      // A worker is found in the binary only if it is an entry point.
      ...["src/main.ts", "src/replication.worker.ts", "src/delivery.worker.ts"],
    ],
    { cwd: root, stdout: "inherit", stderr: "inherit" },
  );
  const code = await child.exited;
  if (code !== 0) throw new Error(`bun build has ended with ${code}`);
  if (metafile !== null) await addConsole(metafile);
  if (Buffer.from(await Bun.file(outfile).arrayBuffer()).includes(root)) {
    throw new Error(`${outfile} holds paths of the machine that it was built on`);
  }
}

/** The console is in the program as files, of which its bundler knows nothing. */
async function addConsole(metafile: string): Promise<void> {
  const [program, bundle] = await Promise.all([readJson(metafile), readJson(consoleMetafile)]);
  await Bun.write(metafile, JSON.stringify({ ...program, inputs: { ...program.inputs, ...bundle.inputs } }));
}

async function readJson(path: string): Promise<{ readonly inputs: object }> {
  return await Bun.file(path).json();
}
