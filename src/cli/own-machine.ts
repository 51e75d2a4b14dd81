// A service on this very machine is asked without the proxy of the environment, which cannot reach it: a container's engine hands its
// proxy to every process, the health check among them.

import { isLoopbackHost } from "../loopback.ts";

/** Excepts the service at `url`, where it is on this machine, from the proxies in `environment`, which `fetch` reads at each request. */
export function passByProxy(url: string, environment: Record<string, string | undefined>): void {
  const { hostname } = new URL(url);
  if (!isLoopbackHost(hostname)) return;
  for (const name of ["NO_PROXY", "no_proxy"]) {
    environment[name] = [environment[name], hostname].filter(Boolean).join(",");
  }
}
