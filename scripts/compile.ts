// Makes one file of the program, with everything in it: both workers, the migrations, PGlite with a prepared data directory, and
// Swagger UI.

import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { preparedArchiveName } from "../src/state/embedded/embedded-files.ts";
import { prepareArchive } from "../src/state/embedded/prepared-archive.ts";

export const root = join(import.meta.dir, "..");
const preparedArchive = join("dist", preparedArchiveName);

/** What all builds hold; once is enough for several. */
export async function prepare(): Promise<void> {
  await mkdir(join(root, "dist"), { recursive: true });
  await prepareArchive(join(root, preparedArchive));
}

/**
 * @param outfile where to
 * @param target of another machine, as bun names it (`bun-linux-arm64-musl`); null: this one
 * @throws when bun cannot, or when what comes of it tells where it was built
 */
export async function compile(outfile: string, target: string | null): Promise<void> {
  await mkdir(dirname(outfile), { recursive: true });
  const child = Bun.spawn(
    [
      process.execPath,
      "build",
      "--compile",
      // ssh2 asks for it and does without.
      ...["--external", "cpu-features"],
      // Parsed ahead of time: a start takes 0.15 s less.
      ...["--bytecode", "--format=esm"],
      // Renamed identifiers break Elysia's analysis of its handlers, so they stay.
      ...["--minify-whitespace", "--minify-syntax", "--keep-names"],
      // Or else each package that asks for its directory is told where it stood on this machine.
      ...["--define", '__dirname="/"', "--define", '__filename="/"'],
      // What lies beside the binary must not change what it does.
      ...["--no-compile-autoload-dotenv", "--no-compile-autoload-bunfig"],
      ...["--asset", "drizzle", "--asset", preparedArchive],
      ...(target === null ? [] : [`--target=${target}`]),
      ...["--outfile", outfile],
      // A worker is found in the binary only when it is an entry point of its own.
      ...["src/main.ts", "src/replication.worker.ts", "src/webhook.worker.ts"],
    ],
    { cwd: root, stdout: "inherit", stderr: "inherit" },
  );
  const code = await child.exited;
  if (code !== 0) throw new Error(`bun build has ended with ${code}`);
  if (Buffer.from(await Bun.file(outfile).arrayBuffer()).includes(join(root, "node_modules"))) {
    throw new Error(`${outfile} holds paths of the machine that it was built on`);
  }
}
