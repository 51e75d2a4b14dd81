// A disk of a few megabytes, in memory. It takes root to mount one.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";

/** User and group of `nobody`, which the test servers run as. */
const options = (megabytes: number) => `size=${megabytes}m,uid=65534,gid=65534,mode=0700`;

function mount(directory: string, megabytes: number): void {
  execFileSync("mount", ["-t", "tmpfs", "-o", options(megabytes), "tmpfs", directory], { stdio: "ignore" });
}

export class SmallDisk implements AsyncDisposable {
  private constructor(readonly directory: string) {}

  /** Whether this process may mount one. */
  static mayBeMade(): boolean {
    if (process.platform !== "linux" || process.getuid?.() !== 0) return false;
    const directory = mkdtempSync(join(tmpdir(), "millrace-disk-"));
    try {
      mount(directory, 1);
      execFileSync("umount", [directory]);
      return true;
    } catch {
      return false;
    } finally {
      rmSync(directory, { recursive: true });
    }
  }

  /** `directory` is made where it is not there; what it holds is hidden. */
  static async at(directory: string, megabytes: number): Promise<SmallDisk> {
    await mkdir(directory, { recursive: true });
    mount(directory, megabytes);
    return new SmallDisk(directory);
  }

  /** Takes all the room that is left, by a file; returns when there is none. */
  async fill(): Promise<void> {
    await using file = await open(this.#filler, "a");
    for (let bytes = 1024 * 1024; bytes >= 4096; bytes /= 2) {
      // What does not fit is not written, or in part.
      while (
        await file.write(Buffer.alloc(bytes)).then(
          (written) => written.bytesWritten === bytes,
          () => false,
        )
      );
    }
  }

  async makeRoom(): Promise<void> {
    await rm(this.#filler, { force: true });
  }

  /** Nothing may be in use there. */
  async [Symbol.asyncDispose](): Promise<void> {
    execFileSync("umount", [this.directory]);
  }

  get #filler(): string {
    return join(this.directory, "filler");
  }
}

/** A directory and all in it, with owners and modes. */
export async function copyOwned(from: string, to: string): Promise<void> {
  const { exitCode, stderr } = await $`mkdir -p ${to} && cp -a ${from}/. ${to}`.quiet().nothrow();
  if (exitCode !== 0) throw new Error(stderr.toString());
}
