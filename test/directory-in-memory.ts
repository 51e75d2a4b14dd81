// Where tests keep what they write: in memory, if the machine has plenty. They make and remove some hundred thousand files, most of them
// files of databases. On ext4 without a journal that took more of the processors than the tests themselves: it looks at each inode that
// was freed lately, and passes over it. Whoever sets TMPDIR chooses another place. The long commands write more than memory should hold.

import { readFileSync, statfsSync } from "node:fs";

const gigabyte = 1024 ** 3;
/** Four files side by side, each with servers of its own, took one at most. */
const enoughBytes = 6 * gigabyte;
const directory = "/dev/shm";

const { TMPDIR, MILLRACE_TEST_TIMEOUT_MS } = process.env;
if (process.platform === "linux" && TMPDIR === undefined && MILLRACE_TEST_TIMEOUT_MS === undefined) {
  if (isInMemory() && freeBytes() >= enoughBytes) process.env.TMPDIR = directory;
}

/** Programs must be able to run there: where tests run as root, those of Postgres may be copied. */
function isInMemory(): boolean {
  const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
  const mount = mounts.map((line) => line.split(" ")).find(([, place]) => place === directory);
  return mount?.[2] === "tmpfs" && !mount[3]?.split(",").includes("noexec");
}

function freeBytes(): number {
  const { bavail, bsize } = statfsSync(directory);
  const availableKb = /^MemAvailable: +(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1];
  return Math.min(bavail * bsize, Number(availableKb ?? 0) * 1024);
}
