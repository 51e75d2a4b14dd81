// Examines the free disk space where the service keeps its state.

import { statfs } from "node:fs/promises";
import { type Finding, fine } from "../connector/service/diagnosis.ts";

const gigabyte = 1024 ** 3;
/** The embedded database's WAL alone may take some of it for a moment. */
const neededBytes = 0.25 * gigabyte;
const lowBytes = 2 * gigabyte;

/** @param directory the data directory; null: nothing is stored in it */
export async function examineDisk(directory: string | null): Promise<Finding> {
  if (directory === null) return fine("disk", "The service stores nothing on this machine.");
  try {
    const { bavail, bsize } = await statfs(directory);
    return judgeDisk(directory, bavail * bsize);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    return {
      about: "disk",
      severity: "failed",
      finding: `The data directory ${directory} cannot be looked at: ${code}.`,
      commands: [`ls -ld ${quoted(directory)}`],
    };
  }
}

/** Pure. */
export function judgeDisk(directory: string, freeBytes: number): Finding {
  const free = `${(freeBytes / gigabyte).toFixed(2)} GB are free where the data directory ${directory} is`;
  if (freeBytes >= lowBytes) return fine("disk", `${free}.`);
  const severity = freeBytes < neededBytes ? "failed" : "warning";
  const finding = `${free}: make room, or stop the service, move the directory, and start it with --data-dir.`;
  return { about: "disk", severity, finding, commands: [`df -h ${quoted(directory)}`] };
}

function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
