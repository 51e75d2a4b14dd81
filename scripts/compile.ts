// Compiles the program into one file with everything in it: both workers, the migrations, PGlite with a prepared data
// directory, and Swagger UI.

import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { preparedArchiveName } from "../src/state/embedded/embedded-files.ts";
import { prepareArchive } from "../src/state/embedded/prepared-archive.ts";

export const root = join(import.meta.dir, "..");
const preparedArchive = join("dist", preparedArchiveName);

/** Prepares what every build contains. Several builds can share one call. */
export async function prepare(): Promise<void> {
  await mkdir(join(root, "dist"), { recursive: true });
  await prepareArchive(join(root, preparedArchive));
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
      // Elysia analyses its handlers' source, and renamed identifiers break that.
      ...["--minify-whitespace", "--minify-syntax", "--keep-names"],
      // Otherwise packages that read their directory would get its path on this machine.
      ...["--define", '__dirname="/"', "--define", '__filename="/"'],
      // Files next to the binary must not change what it does.
      ...["--no-compile-autoload-dotenv", "--no-compile-autoload-bunfig"],
      ...["--asset", "drizzle", "--asset", preparedArchive],
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
  if (Buffer.from(await Bun.file(outfile).arrayBuffer()).includes(join(root, "node_modules"))) {
    throw new Error(`${outfile} holds paths of the machine that it was built on`);
  }
}
