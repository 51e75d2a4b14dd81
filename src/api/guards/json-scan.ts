// Finds what JSON.parse hides: how deeply a text is nested, and which keys an object repeats. JSON.parse keeps the last
// of two equal keys; another reader may keep the first, so that one checks what the other does not execute.

import { pointerMember } from "../../errors/pointer-member.ts";

export interface JsonScan {
  /** JSON pointers of repeated keys. */
  readonly repeatedKeys: readonly string[];
  readonly tooDeep: boolean;
}

const maxReported = 100;

interface Container {
  /** The keys so far; null: an array. */
  readonly keys: Set<string> | null;
  /** The container's JSON pointer. */
  readonly path: string;
  /** The current member: a key or an index. */
  member: string | number;
  /** Whether the next string is a key. */
  expectsKey: boolean;
}

/** Scans the text once, without recursion. JSON.parse will refuse what is not JSON. */
export function scanJson(text: string, maxDepth: number): JsonScan {
  const repeatedKeys: string[] = [];
  const open: Container[] = [];
  for (let at = 0; at < text.length; at++) {
    const container = open.at(-1);
    switch (text.charAt(at)) {
      case '"': {
        const end = endOfString(text, at);
        if (container?.keys && container.expectsKey) {
          const repeated = readKey(container, container.keys, text.slice(at, end + 1));
          if (repeated !== null && repeatedKeys.length < maxReported) repeatedKeys.push(repeated);
        }
        at = end;
        break;
      }
      case "{":
      case "[": {
        if (open.length >= maxDepth) return { repeatedKeys, tooDeep: true };
        const isObject = text.charAt(at) === "{";
        const path = container ? pointer(container) : "";
        open.push({ keys: isObject ? new Set() : null, path, member: 0, expectsKey: isObject });
        break;
      }
      case "}":
      case "]":
        open.pop();
        break;
      case ",":
        if (container?.keys) container.expectsKey = true;
        else if (container) container.member = Number(container.member) + 1;
        break;
    }
  }
  return { repeatedKeys, tooDeep: false };
}

/** Adds a key. Returns its pointer if the object has it already. */
function readKey(container: Container, keys: Set<string>, literal: string): string | null {
  container.expectsKey = false;
  const key = parseString(literal);
  if (key === null) return null;
  container.member = key;
  if (keys.has(key)) return pointer(container);
  keys.add(key);
  return null;
}

/** Decodes escapes: two spellings of a key are the same key. */
function parseString(literal: string): string | null {
  if (!literal.includes("\\")) return literal.slice(1, -1);
  try {
    return String(JSON.parse(literal));
  } catch {
    return null;
  }
}

/** Index of the closing quote, or of the last character. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === "\\") at++;
    else if (character === '"') return at;
  }
  return text.length - 1;
}

/** RFC 6901. Long keys are shortened, because the pointer is for people. */
function pointer(container: Container): string {
  const member = pointerMember(String(container.member).slice(0, 100));
  return `${container.path}/${member}`;
}
