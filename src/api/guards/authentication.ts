// Authenticates callers by HTTP Basic (RFC 7617), Bearer (RFC 6750), both, or not at all. Some credentials may only read.
// The settings refuse to listen on other addresses without authentication.

import { createHash, timingSafeEqual } from "node:crypto";
import { Elysia } from "elysia";
import type { Access } from "../../connector/service/session.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { problemResponse } from "../problem.ts";
import { isOpenUrl } from "./open-url.ts";
import { isRead } from "./request-path.ts";

/** Null: the method is off. */
export interface Credentials {
  readonly basic: { readonly username: string; readonly password: string } | null;
  readonly bearer: { readonly token: string } | null;
}

/** Both methods off: everyone may call. */
export interface Authentication extends Credentials {
  /** These may only read. They come beside credentials that may write. Absent: there are none. */
  readonly readOnly?: Credentials;
}

/** What the sender of the request may do; null: nothing. Takes the same time for all credentials. */
export type AccessOf = (request: Request) => Access | null;

export function accessReader(authentication: Authentication): AccessOf {
  const credentials = acceptedCredentials(authentication);
  if (credentials.length === 0) return () => "Full";
  return (request) => grantedAccess(request.headers.get("authorization"), credentials);
}

/** Which methods any of the credentials use. */
export function usedMethods({ basic, bearer, readOnly }: Authentication): Record<keyof Credentials, boolean> {
  return {
    basic: basic !== null || (readOnly?.basic ?? null) !== null,
    bearer: bearer !== null || (readOnly?.bearer ?? null) !== null,
  };
}

/**
 * Answers 401 with `WWW-Authenticate`, and 403 to a write with credentials that may only read, before it looks at
 * anything else.
 */
export function authenticationGuard(authentication: Authentication, accessOf: AccessOf) {
  const guard = new Elysia({ name: "authentication" });
  const methods = usedMethods(authentication);
  if (!methods.basic && !methods.bearer) return guard;
  const challenge = challengeOf(methods);
  const detail = detailOf(methods);
  return guard.onRequest(({ request }) => {
    if (isOpenUrl(request.url)) return;
    const access = accessOf(request);
    if (access === null) {
      return problemResponse(new MillraceError("unauthorized", detail), {
        headers: { "www-authenticate": challenge },
      });
    }
    if (access === "Read" && !isRead(request.method)) {
      return problemResponse(
        new MillraceError(
          "forbidden",
          "These credentials may only read. Changes need the service's other credentials: the token of " +
            "MILLRACE_API_TOKEN, or the user name and password of MILLRACE_USERNAME and MILLRACE_PASSWORD.",
        ),
      );
    }
    return;
  });
}

interface Credential {
  readonly scheme: string;
  readonly digest: Buffer;
  readonly access: Access;
}

function acceptedCredentials({ basic, bearer, readOnly }: Authentication): Credential[] {
  return [
    ...credentialsFor("Full", { basic, bearer }),
    ...(readOnly ? credentialsFor("Read", readOnly) : []),
  ];
}

function credentialsFor(access: Access, { basic, bearer }: Credentials): Credential[] {
  const credentials: Credential[] = [];
  if (basic) {
    const pair = Buffer.from(`${basic.username}:${basic.password}`, "utf8");
    credentials.push({ scheme: "basic", digest: digest(pair), access });
  }
  if (bearer)
    credentials.push({ scheme: "bearer", digest: digest(Buffer.from(bearer.token, "utf8")), access });
  return credentials;
}

/** Takes constant time: it compares digests of equal length, and always all of them. */
function grantedAccess(header: string | null, credentials: readonly Credential[]): Access | null {
  const [, scheme = "", value = ""] = /^([A-Za-z]+) +([^ ]+) *$/.exec(header ?? "") ?? [];
  const kind = scheme.toLowerCase();
  const sent = digest(kind === "basic" ? Buffer.from(value, "base64") : Buffer.from(value, "utf8"));
  let granted: Access | null = null;
  for (const credential of credentials) {
    const same = timingSafeEqual(credential.digest, sent);
    if (same && credential.scheme === kind) granted = credential.access;
  }
  return granted;
}

function digest(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

/** A browser, in which a person opens /swagger, can ask for a name and a password, but not for a token. */
function detailOf({ basic }: Record<keyof Credentials, boolean>): string {
  const missing = "Credentials are required, and those that were sent, if any, are wrong.";
  return basic
    ? missing
    : `${missing} The service takes its token alone; to open /swagger in a browser, set MILLRACE_USERNAME and MILLRACE_PASSWORD too.`;
}

function challengeOf({ basic, bearer }: Record<keyof Credentials, boolean>): string {
  const challenges: string[] = [];
  if (basic) challenges.push('Basic realm="millrace", charset="UTF-8"');
  if (bearer) challenges.push('Bearer realm="millrace"');
  return challenges.join(", ");
}
