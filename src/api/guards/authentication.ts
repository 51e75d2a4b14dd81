// Authenticates callers by HTTP Basic (RFC 7617), Bearer (RFC 6750), both, or not at all. The settings refuse to listen
// on other addresses without it.

import { createHash, timingSafeEqual } from "node:crypto";
import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { problemResponse } from "../problem.ts";
import { isOpenUrl } from "./open-url.ts";

/** Null: the method is off. Both null: everyone may call. */
export interface Authentication {
  readonly basic: { readonly username: string; readonly password: string } | null;
  readonly bearer: { readonly token: string } | null;
}

/** Answers 401 with `WWW-Authenticate` before it looks at anything else. */
export function authenticationGuard(authentication: Authentication) {
  const guard = new Elysia({ name: "authentication" });
  const credentials = acceptedCredentials(authentication);
  if (credentials.length === 0) return guard;
  const challenge = challengeOf(authentication);
  const detail = detailOf(authentication);
  return guard.onRequest(({ request }) => {
    if (isOpenUrl(request.url)) return;
    if (isAccepted(request.headers.get("authorization"), credentials)) return;
    return problemResponse(new MillraceError("unauthorized", detail), {
      headers: { "www-authenticate": challenge },
    });
  });
}

interface Credential {
  readonly scheme: string;
  readonly digest: Buffer;
}

function acceptedCredentials({ basic, bearer }: Authentication): Credential[] {
  const credentials: Credential[] = [];
  if (basic) {
    const pair = Buffer.from(`${basic.username}:${basic.password}`, "utf8");
    credentials.push({ scheme: "basic", digest: digest(pair) });
  }
  if (bearer) credentials.push({ scheme: "bearer", digest: digest(Buffer.from(bearer.token, "utf8")) });
  return credentials;
}

/** Takes constant time: it compares digests of equal length, and always all of them. */
function isAccepted(header: string | null, credentials: readonly Credential[]): boolean {
  const [, scheme = "", value = ""] = /^([A-Za-z]+) +([^ ]+) *$/.exec(header ?? "") ?? [];
  const kind = scheme.toLowerCase();
  const sent = digest(kind === "basic" ? Buffer.from(value, "base64") : Buffer.from(value, "utf8"));
  let accepted = false;
  for (const credential of credentials) {
    const same = timingSafeEqual(credential.digest, sent);
    accepted = (same && credential.scheme === kind) || accepted;
  }
  return accepted;
}

function digest(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

/** A browser, in which a person opens /swagger, can ask for a name and a password, but not for a token. */
function detailOf({ basic }: Authentication): string {
  const missing = "Credentials are required, and those that were sent, if any, are wrong.";
  return basic
    ? missing
    : `${missing} The service takes its token alone; for a browser, set MILLRACE_USERNAME and MILLRACE_PASSWORD too.`;
}

function challengeOf({ basic, bearer }: Authentication): string {
  const challenges: string[] = [];
  if (basic) challenges.push('Basic realm="millrace", charset="UTF-8"');
  if (bearer) challenges.push('Bearer realm="millrace"');
  return challenges.join(", ");
}
