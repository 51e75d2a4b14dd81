// What a client demands of the connector that is there, before its change counts (RFC 9110, section 13). Pure.

import { createHash } from "node:crypto";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { ConnectorRequest } from "../connector.ts";
import { redactConnector } from "../secrets.ts";
import { isJsonObject, type JsonValue } from "./merge-patch.ts";

/** Tags of configurations, or any connector that there is. */
type Tags = "any" | readonly string[];

/** Null: nothing is demanded. */
export interface Precondition {
  readonly ifMatch: Tags | null;
  readonly ifNoneMatch: Tags | null;
}

export const unconditional: Precondition = { ifMatch: null, ifNoneMatch: null };

/**
 * The ETag of a connector: of its given form as responses show it, and of nothing else. It stays while the status changes, and
 * where a secret alone is another one.
 */
export function configurationTag(given: ConnectorRequest): string {
  const text = JSON.stringify(sorted(redactConnector(given) as unknown as JsonValue));
  return `"${createHash("sha256").update(text).digest("hex").slice(0, 32)}"`;
}

/**
 * @param ifMatch the header's value; undefined: it was not sent
 * @throws `invalid_request` for a value that is neither `*` nor a list of tags
 */
export function readPrecondition(ifMatch: string | undefined, ifNoneMatch: string | undefined): Precondition {
  return { ifMatch: readTags("If-Match", ifMatch), ifNoneMatch: readTags("If-None-Match", ifNoneMatch) };
}

/**
 * Throws `precondition_failed`.
 *
 * @param given of the connector that is there; null: there is none
 */
export function requireCondition(
  id: string,
  given: ConnectorRequest | null,
  { ifMatch, ifNoneMatch }: Precondition,
): void {
  const tag = given === null ? null : configurationTag(given);
  if (ifMatch !== null && !isAmong(tag, ifMatch)) throw failed(tag === null ? gone(id) : changed(id, tag));
  if (ifNoneMatch !== null && isAmong(tag, ifNoneMatch)) throw failed(taken(id));
}

function isAmong(tag: string | null, tags: Tags): boolean {
  return tag !== null && (tags === "any" || tags.includes(tag));
}

function readTags(name: string, value: string | undefined): Tags | null {
  if (value === undefined) return null;
  if (value.trim() === "*") return "any";
  const parts = value.split(",").map((part) => tagForm.exec(part.trim()));
  if (parts.every((part) => part !== null)) return parts.map(([, tag]) => `"${tag}"`);
  throw new MillraceError("invalid_request", `The header ${name} takes * or ETags, in their quotes.`, {
    violations: [{ path: name, message: 'expected * or a list of ETags, as in "0123abcd"' }],
  });
}

/**
 * A proxy that compresses makes an ETag weak (nginx), or writes the coding into it (Apache). Ours says which configuration it was, and not which
 * bytes, so it is the same one still.
 */
const tagForm = /^(?:W\/)?"([^",-]*)(?:-[a-z]+)?"$/;

/** Members by name: stored and read again, they may have another order. */
function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, sorted(member)]));
}

function failed(detail: string): MillraceError {
  return new MillraceError("precondition_failed", detail);
}

const taken = (id: string) =>
  `There is a connector ${id} already. Choose another id, or send the request without If-None-Match to replace it.`;

const changed = (id: string, tag: string) =>
  `The connector ${id} was changed since you read it: its ETag is ${tag} now. Read it again, look at what is different, and send your ` +
  "change with the new ETag.";

const gone = (id: string) => `There is no connector ${id} any more. Without If-Match the request creates it.`;
