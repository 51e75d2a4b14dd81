// On Ctrl-C, at any moment, and when its terminal closes, the demo takes down everything it started.

import { afterEach, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const main = resolve(import.meta.dirname, "..", "..", "src", "main.ts");
let home = "";

afterEach(() => rmSync(home, { recursive: true, force: true }));

test.each([
  ["Service on", "SIGINT"],
  ["Load over", "SIGINT"],
  ["Service on", "SIGHUP"],
] as const)(
  "after %p by %s",
  async (moment, signal) => {
    home = mkdtempSync(join(tmpdir(), "millrace-interrupt-"));
    // The user that Postgres runs as needs access.
    chmodSync(home, 0o755);
    const child = Bun.spawn([process.execPath, main, "demo"], {
      env: { ...process.env, TMPDIR: home },
      stdout: "pipe",
      stderr: "inherit",
    });
    let text = "";
    for await (const chunk of child.stdout) {
      const seen = text.includes(moment);
      text += new TextDecoder().decode(chunk);
      if (!seen && text.includes(moment)) child.kill(signal);
    }
    expect(await child.exited, text).toBe(130);
    expect(readdirSync(home)).toEqual([]);
    expect(processesOf(home)).toEqual([]);
  },
  90_000,
);

/** Command lines of processes that name the directory. Empty without /proc. */
function processesOf(directory: string): string[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const commandLine = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      return commandLine.includes(directory) ? [commandLine] : [];
    } catch {
      return [];
    }
  });
}
