// Prevents cross-site request forgery. A browser sends along credentials that a person once typed, and reaches a service
// on this machine that asks for none, also at the behest of a page of another site. The browser tells where a request
// comes from, and this guard refuses writes from elsewhere, and reads that act on other systems. Two tell nothing, and are let
// through: clients that are no browsers, and a browser's read over plain http to another machine.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { problemResponse } from "../problem.ts";

/** They change nothing; and a page cannot read the answers, as none allows it (CORS). */
const safeMethods: readonly string[] = ["GET", "HEAD", "OPTIONS"];

/** Answers 403 to a write that a page of another site sends. */
export const crossSiteGuard = new Elysia({ name: "cross-site-guard" }).onRequest(({ request }) => {
  if (safeMethods.includes(request.method) || !isFromElsewhere(request.headers)) return;
  return problemResponse(fromElsewhere());
});

/** For a read that acts on other systems. Throws `forbidden` if a page of another site sends it. */
export function refuseFromElsewhere({ headers }: Request): void {
  if (isFromElsewhere(headers)) throw fromElsewhere();
}

function fromElsewhere(): MillraceError {
  return new MillraceError(
    "forbidden",
    "The request comes from a page of another site, by its Sec-Fetch-Site or Origin header. Pages of other sites may " +
      "change and examine nothing here. A proxy in front of the service has to pass the Host header on as the browser sent it.",
  );
}

/**
 * `Sec-Fetch-Site` (W3C Fetch Metadata) decides where there is one: a proxy may change the Host, but not this, and no
 * page can set it. Browsers leave it out where there is no TLS, but on the machine itself. Then the Origin (RFC 6454)
 * must have the request's host.
 */
function isFromElsewhere(headers: Headers): boolean {
  const site = headers.get("sec-fetch-site");
  // `none`: the person did it, not a page.
  if (site !== null) return site !== "same-origin" && site !== "none";
  const origin = headers.get("origin");
  return origin !== null && !isOriginOf(origin, headers.get("host"));
}

const defaultPorts: Readonly<Record<string, string>> = { http: "80", https: "443" };

/** `null`, the origin of a page in a sandbox or of a local file, belongs to no host. Case does not matter in a host. */
function isOriginOf(origin: string, host: string | null): boolean {
  const [, scheme = "", from = ""] = /^(https?):\/\/([^/?#]+)$/.exec(origin.toLowerCase()) ?? [];
  return from !== "" && host !== null && withPort(from, scheme) === withPort(host.toLowerCase(), scheme);
}

/** An Origin leaves out its scheme's own port, which a Host may have. */
function withPort(host: string, scheme: string): string {
  return /:\d+$/.test(host) ? host : `${host}:${defaultPorts[scheme]}`;
}
