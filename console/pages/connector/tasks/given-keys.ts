// Reads the keys of rows that somebody writes down: JSON, one in each line. The service checks their values. Pure.

import type { GivenKey } from "../../../../src/connector/replay.ts";

/** `wrong`: the number of the first line that is no key, from 1. */
export function readKeys(text: string): { readonly keys: readonly GivenKey[] } | { readonly wrong: number } {
  const keys: GivenKey[] = [];
  for (const [at, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const key = parsed(line);
    if (typeof key !== "object" || key === null || Array.isArray(key)) return { wrong: at + 1 };
    keys.push(key as GivenKey);
  }
  return { keys };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
