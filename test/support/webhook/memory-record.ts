// A record as the state store would keep it, in memory.

import type { ChangedParts, SavedRecord } from "../../../src/connector/saved-record.ts";

export function withSave(
  before: SavedRecord | null,
  text: string,
  changed: ChangedParts = new Map(),
): SavedRecord {
  const parts = new Map(before?.parts);
  for (const [name, part] of changed) {
    if (part === null) parts.delete(name);
    else parts.set(name, part);
  }
  return { text, parts };
}

/** The webhook sink's record as it was saved before tables had parts of their own. */
export function asWhole({ text, parts }: SavedRecord): SavedRecord {
  const place = JSON.parse(text);
  if (place.format === 1) return { text, parts };
  const tables = [...parts].map(([name, part]) => [name, JSON.parse(part)] as const);
  const of = (what: "copied" | "divided") =>
    Object.fromEntries(tables.filter(([, table]) => table[what]).map(([name, table]) => [name, table[what]]));
  const whole = { ...place, format: 1, copied: of("copied"), divided: of("divided") };
  return { text: JSON.stringify(whole), parts: new Map() };
}
