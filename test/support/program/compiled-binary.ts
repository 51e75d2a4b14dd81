// The compiled program, built once: again only when a source is newer than it. Test files that run side by side wait for
// the one that builds.

import { existsSync, statSync } from "node:fs";
import { mkdir, readdir, utimes } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { lockDirectory } from "../../../src/state/embedded/directory-lock.ts";
import { waitFor } from "../wait-for.ts";

const root = resolve(import.meta.dirname, "..", "..", "..");
const binary = join(root, "dist", "millrace");
const inputs = ["src", "console", "drizzle", "scripts", "package.json", "bun.lock"];

/** Path of `dist/millrace`, which is as new as the sources. Building takes some seconds. */
export async function compiledBinary(): Promise<string> {
  using _lock = await lockBuild();
  if (existsSync(binary) && statSync(binary).mtimeMs > (await newestInputMs())) return binary;
  const beganAt = new Date();
  const build = Bun.spawn([process.execPath, "scripts/build.ts"], {
    cwd: root,
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, output, errors] = await Promise.all([
    build.exited,
    new Response(build.stdout).text(),
    new Response(build.stderr).text(),
  ]);
  if (code !== 0) throw new Error(`the build ended with ${code}:\n${output}${errors}`);
  // A source that was written while the build ran may not be in it: the next caller builds again.
  await utimes(binary, beganAt, beganAt);
  return binary;
}

/** The kernel lets go of the lock with its process: a test that is killed while it builds keeps nobody. */
async function lockBuild(): Promise<Disposable> {
  const directory = dirname(binary);
  await mkdir(directory, { recursive: true });
  return await waitFor("the build of another test file", () => lockDirectory(directory), {
    timeoutMs: 50_000,
    intervalMs: 100,
  });
}

async function newestInputMs(): Promise<number> {
  let newest = 0;
  for (const input of inputs) {
    const path = join(root, input);
    const files = statSync(path).isDirectory() ? await readdir(path, { recursive: true }) : [""];
    for (const file of files) newest = Math.max(newest, statSync(join(path, file)).mtimeMs);
  }
  return newest;
}
