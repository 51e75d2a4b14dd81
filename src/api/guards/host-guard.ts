// Against DNS rebinding: a page in a browser on this machine may give its own name our address, and then speaks to us
// as its own site. Its requests still carry its name in the Host header. For a service that asks for no credentials;
// with credentials, the page lacks them.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { problemResponse } from "../problem.ts";
import { isOpenUrl } from "./open-url.ts";

/** Whether a host, without its port, is one that this service is rightly called by. */
export type AcceptsHost = (host: string) => boolean;

/** A browser does not show a prompt for this one, as it would for Basic. */
const challenge = 'Bearer realm="millrace"';

/** Answers 401 to a request that names another host. One that names none comes from no browser. */
export function hostGuard(acceptsHost: AcceptsHost | null) {
  const guard = new Elysia({ name: "host-guard" });
  if (!acceptsHost) return guard;
  return guard.onRequest(({ request }) => {
    const host = request.headers.get("host");
    if (host === null || isOpenUrl(request.url) || acceptsHost(withoutPort(host))) return;
    return problemResponse(
      new MillraceError(
        "unauthorized",
        "The Host header names another machine. Without authentication, the service answers only to localhost and " +
          "loopback addresses. Call it by one of these, or set MILLRACE_API_TOKEN, or MILLRACE_USERNAME and " +
          "MILLRACE_PASSWORD. MILLRACE_ALLOW_ANONYMOUS=1 overrides this.",
      ),
      { headers: { "www-authenticate": challenge } },
    );
  });
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, "");
}
