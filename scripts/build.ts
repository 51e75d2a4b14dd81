// `bun run build`: dist/millrace, one file with everything in it: both workers, the migrations, PGlite with a prepared
// data directory, and Swagger UI. `--target=bun-linux-arm64` and the like build for another machine.

import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { preparedArchiveName } from "../src/state/embedded-files.ts";
import { prepareArchive } from "../src/state/prepared-archive.ts";

const root = join(import.meta.dir, "..");
const outfile = join(root, "dist", "millrace");

const target = process.argv.find((argument) => argument.startsWith("--target="));

await mkdir(join(root, "dist"), { recursive: true });
const preparedArchive = join("dist", preparedArchiveName);
await prepareArchive(join(root, preparedArchive));

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
    ...(target === undefined ? [] : [target]),
    ...["--outfile", outfile],
    // A worker is found in the binary only when it is an entry point of its own.
    ...["src/main.ts", "src/replication.worker.ts", "src/webhook.worker.ts"],
  ],
  { cwd: root, stdout: "inherit", stderr: "inherit" },
);
const code = await child.exited;
if (code !== 0) process.exit(code);

if (Buffer.from(await Bun.file(outfile).arrayBuffer()).includes(join(root, "node_modules"))) {
  console.error("dist/millrace holds paths of the machine that it was built on");
  process.exit(1);
}

const { size } = await stat(outfile);
console.log(`dist/millrace: ${(size / 1_000_000).toFixed(0)} MB`);
