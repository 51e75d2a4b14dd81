// The headers of a webhook whose names can be chosen: their default names, clashes between them, and which of them
// answers hide. Pure; the sink sets their values.

import type { Violation } from "../../errors/millrace-error.ts";
import type { WebhookSinkRequest } from "./webhook-config.ts";

export const defaultHeaderNames = {
  idempotency_key: "Idempotency-Key",
  source_schema: "X-Source-Schema",
  source_table: "X-Source-Table",
} as const;
type SourceHeader = keyof typeof defaultHeaderNames;
const sourceHeaders = Object.keys(defaultHeaderNames) as SourceHeader[];

/** Headers of the connection and of the body's framing, which the HTTP client sets. */
const reserved =
  /^(content-.*|host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|proxy-.*|expect)$/i;

export function isReservedHeader(name: string): boolean {
  return reserved.test(name);
}

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

/** A static header yields to another one of its name. All others must be sent, so each needs a name of its own. */
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
  return [...aliases, ...clashes];
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
