// What JSON can write and the service cannot use: it would be met deep inside only, as a fault.

import type { Violation } from "../../errors/millrace-error.ts";

const maxFound = 100;

/** What a library calls to show a value: a member in its place cannot be called. */
const shownBy: ReadonlySet<string> = new Set(["toString", "valueOf"]);

/**
 * Text that Postgres cannot hold (a NUL character, or half of a surrogate pair), in strings and keys; and keys that hide what every
 * object has. With JSON pointers, at most 100.
 */
export function unusableParts(value: unknown): Violation[] {
  const found: Violation[] = [];
  visit(value, "", found);
  return found.slice(0, maxFound);
}

function visit(value: unknown, path: string, found: Violation[]): void {
  if (typeof value === "string") {
    if (!isStorable(value)) found.push(unstorable(path));
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) visit(item, `${path}/${index}`, found);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, member] of Object.entries(value)) {
      if (!isStorable(key)) {
        found.push(unstorable(path));
        continue;
      }
      const at = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (shownBy.has(key)) found.push({ path: at, message: "unknown key" });
      else visit(member, at, found);
    }
  }
}

function unstorable(path: string): Violation {
  return { path, message: "holds NUL or half of a surrogate pair" };
}

function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}
