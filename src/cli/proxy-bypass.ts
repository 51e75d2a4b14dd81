// Bypasses the environment's proxy for a service on this machine, which the proxy cannot reach. A container engine
// passes its proxy to every process, including the health check.

import { isLoopbackHost } from "../loopback.ts";

/**
 * Exempts the service at `url`, if it is on this machine, from the proxies in `environment`, which `fetch` reads at
 * each request.
 */
export function bypassProxy(url: string, environment: Record<string, string | undefined>): void {
  const { hostname } = new URL(url);
  if (!isLoopbackHost(hostname)) return;
  for (const name of ["NO_PROXY", "no_proxy"]) {
    environment[name] = [environment[name], hostname].filter(Boolean).join(",");
  }
}
