// Prevents DNS rebinding. A page in a browser on this machine may point its own host name at our address, and then talk
// to us as its own site. Its requests still have that name in the Host header. This guard is for a service without
// credentials: with credentials, such a page lacks them.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { problemResponse } from "../problem.ts";
import { isOpenUrl } from "./open-url.ts";

/** Whether this service accepts the host, given without its port. */
export type AcceptsHost = (host: string) => boolean;

/** For Bearer a browser shows no login prompt; for Basic it would. */
const challenge = 'Bearer realm="millrace"';

/** Answers 401 to a request that names another host. A request without a host does not come from a browser. */
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
