// The keys of a request's rows, for people: read from the JSON that is sent, so that they look as the receiver sees them. Pure.

import { type RowsRequest, rowBytes } from "./request-parts.ts";

/** A key's columns mostly come first. What lies further behind in a row is not looked for. */
const lookedAtBytes = 64 * 1024;
/** Keys of one message that are listed. */
const maxListed = 100;

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** JSON: a list of objects. A row whose key is not found is left out. */
export function rowKeys(request: RowsRequest): string {
  const { keyColumns, columnsAt } = request.rowMarks;
  if (keyColumns.length === 0) return "[]";
  const keys = Array.from({ length: Math.min(request.rows, maxListed) }, (_, row) =>
    keyOf(decoder.decode(rowBytes(request, row, lookedAtBytes)), keyColumns, columnsAt),
  );
  return `[${[...new Set(keys.filter((key) => key !== null))].join(",")}]`;
}

/** `places`: names of members, from outside in, within which the columns may stand. */
function keyOf(
  json: string,
  columns: readonly string[],
  places: readonly (readonly string[])[],
): string | null {
  for (const place of places) {
    const start = place.reduce<number | null>(
      (at, name) => (at === null ? null : (memberOf(json, at, name)?.start ?? null)),
      0,
    );
    if (start === null || json[start] !== "{") continue;
    const members = columns.map((column) => memberOf(json, start, column));
    if (members.some((member) => member === null)) continue;
    const texts = members.map((member) => exact(json.slice(member!.start, member!.end)));
    return `{${columns.map((column, i) => `${JSON.stringify(column)}:${texts[i]}`).join(",")}}`;
  }
  return null;
}

/** A number with more digits than JavaScript keeps becomes a text, so that whoever parses it keeps them. */
function exact(value: string): string {
  if (!/^-?[0-9]/.test(value)) return value;
  return String(Number(value)) === value ? value : JSON.stringify(value);
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** The value of a member of the object that begins at `at`; null: it has none, or is cut before it. */
function memberOf(json: string, at: number, name: string): Range | null {
  if (json[at] !== "{") return null;
  let next = at + 1;
  while (json[next] === '"') {
    const nameEnd = endOfText(json, next);
    if (json[nameEnd] !== ":") return null;
    const end = endOfValue(json, nameEnd + 1);
    if (end > json.length) return null;
    if (JSON.parse(json.slice(next, nameEnd)) === name) return { start: nameEnd + 1, end };
    if (json[end] !== ",") return null;
    next = end + 1;
  }
  return null;
}

/** Beyond the text's end: it is cut. */
function endOfValue(json: string, at: number): number {
  let depth = 0;
  for (let i = at; i < json.length; i++) {
    const character = json[i]!;
    if (character === '"') i = endOfText(json, i) - 1;
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") {
      if (depth === 0) return i;
      depth--;
    } else if (character === "," && depth === 0) return i;
  }
  return json.length + 1;
}

function endOfText(json: string, at: number): number {
  for (let i = at + 1; i < json.length; i++) {
    if (json[i] === "\\") i++;
    else if (json[i] === '"') return i + 1;
  }
  return json.length + 1;
}
