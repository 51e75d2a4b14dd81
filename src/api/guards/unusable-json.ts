// Finds JSON values that the service cannot use. They would otherwise fail deep inside, as internal errors.

import type { Violation } from "../../errors/millrace-error.ts";
import { pointerMember } from "../../errors/pointer-member.ts";

const maxFound = 100;

/** Methods that a library calls to print a value. A member of that name would be called instead, and fail. */
const shownBy: ReadonlySet<string> = new Set(["toString", "valueOf"]);

/**
 * Finds strings and keys that Postgres cannot store (with a NUL character, or a lone surrogate), and keys that hide
 * methods of every object. Returns at most 100 violations.
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
      const at = `${path}/${pointerMember(key)}`;
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
