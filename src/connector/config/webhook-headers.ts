// The headers of a webhook whose names can be chosen: their default names, clashes between them, which of them can
// never be sent, and which of them answers hide. Pure; the sink sets their values.

import type { Violation } from "../../errors/millrace-error.ts";
import type { WebhookSinkRequest } from "./webhook-config.ts";

export const defaultHeaderNames = {
  idempotency_key: "Idempotency-Key",
  source_schema: "X-Source-Schema",
  source_table: "X-Source-Table",
} as const;
type SourceHeader = keyof typeof defaultHeaderNames;
const sourceHeaders = Object.keys(defaultHeaderNames) as SourceHeader[];

/** Headers of the connection, which the HTTP client sets or leaves out. As patterns, in lower case. */
const connectionHeaders = [
  "host",
  "connection",
  "keep-alive",
  "transfer-encoding",
  "te",
  "trailer",
  "upgrade",
  "proxy-.*",
  "expect",
];
/** The body's own, which no other header can replace. Another `Content-*` says something of the rows, as `Content-Language`. */
const bodyHeaders = ["content-type", "content-encoding", "content-length"];
const reserved = new RegExp(`^(?:${[...bodyHeaders, ...connectionHeaders].join("|")})$`, "i");
/** What no static header can be. `Content-Type` and `Content-Encoding` yield to the body's own. */
export const neverStatic: readonly string[] = ["content-length", ...connectionHeaders];
const neverStaticName = new RegExp(`^(?:${neverStatic.join("|")})$`, "i");

export function isReservedHeader(name: string): boolean {
  return reserved.test(name);
}

/** Those of Standard Webhooks. */
export const signatureHeaders: readonly string[] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

const credentialWords = "authorization|cookie|key|token|secret|auth|password|signature";
const credentialName = new RegExp(credentialWords, "i");
/** A scheme of RFC 9110 section 11 and what follows it; `token=…`; a JSON web token; a key with its issuer's prefix. */
const credentialValues: readonly RegExp[] = [
  /^(?:bearer|basic|digest|negotiate|ntlm|token|apikey|hmac|hawk|aws4-hmac-sha256)\s+\S/i,
  new RegExp(`(?:${credentialWords})"?\\s*[=:]`, "i"),
  /^eyJ[\w-]+\.[\w-]*\.?/,
  /^(?:whsec|sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[a-z]|AKIA|ASIA)[-_A-Z0-9]\S{8,}/,
  /:\/\/[^/\s]*:[^/\s]*@/,
];

/** Whether a header seems to hold something that only sender and receiver may know. */
export function looksLikeCredential(name: string, value: string): boolean {
  return credentialName.test(name) || credentialValues.some((form) => form.test(value));
}

interface ChosenHeader {
  readonly path: string;
  readonly name: string;
}

/**
 * All chosen headers must be sent, so each needs a name of its own. A static one yields to another of its name, but for
 * names that are never free for it.
 */
export function headerClashes(webhook: WebhookSinkRequest): Violation[] {
  const isGivenTwice = webhook.headers?.static && webhook.headers.static_;
  const aliases = isGivenTwice
    ? [{ path: "/sink/webhook/headers/static", message: "given beside static_, which is the same" }]
    : [];
  const chosen = chosenHeaders(webhook);
  const taken = takenNames(webhook);
  const clashes = chosen.flatMap(({ path, name }, index): Violation[] => {
    const lower = name.toLowerCase();
    if (isReservedHeader(name)) return [{ path, message: "the HTTP client sets this header by itself" }];
    const isTaken =
      taken.has(lower) || chosen.slice(0, index).some((other) => other.name.toLowerCase() === lower);
    return isTaken ? [{ path, message: "another header has this name" }] : [];
  });
  return [...aliases, ...clashes, ...staticViolations(webhook)];
}

function staticViolations({ headers = {}, signing }: WebhookSinkRequest): Violation[] {
  const key = headers.static_ ? "static_" : "static";
  const names = (headers[key] ?? []).map(({ name }) => name.toLowerCase());
  return names.flatMap((name, index): Violation[] => {
    const message = staticProblem(name, names.slice(0, index), Boolean(signing));
    return message === null ? [] : [{ path: `/sink/webhook/headers/${key}/${index}/name`, message }];
  });
}

/** `name` in lower case, as those `before` it in the list. */
function staticProblem(name: string, before: readonly string[], isSigned: boolean): string | null {
  if (name === "host") return "the host of the url is sent: leave this header out, and name the host in url";
  if (neverStaticName.test(name)) return "the HTTP client sets this header by itself: leave it out";
  if (isSigned && signatureHeaders.includes(name))
    return "signing sets this header: leave it out, or set signing to null";
  if (before.includes(name))
    return "another static header has this name, whatever its case: give one, with both values and a comma between them";
  return null;
}

function chosenHeaders({ headers = {}, auth }: WebhookSinkRequest): readonly ChosenHeader[] {
  const own = sourceHeaders.flatMap((header): ChosenHeader[] => {
    const name = headers[`${header}_header`] ?? defaultHeaderNames[header];
    return headers[header] === false ? [] : [{ path: `/sink/webhook/headers/${header}_header`, name }];
  });
  const key = auth?.header;
  return key ? [...own, { path: "/sink/webhook/auth/header/name", name: key.name }] : own;
}

/** Names that auth and signing set. The signature's id is the idempotency key, so both may use one header. */
function takenNames({ auth, signing }: WebhookSinkRequest): ReadonlySet<string> {
  const names: string[] = [];
  if (auth?.bearer || auth?.basic) names.push("authorization");
  if (signing) names.push("webhook-timestamp", "webhook-signature");
  return new Set(names);
}
