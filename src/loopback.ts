// Tells whether a host to listen on can be reached from this machine only.

import ipaddr from "ipaddr.js";

/** `localhost` and loopback addresses. Any other name may resolve to anything. */
export function isLoopbackHost(host: string): boolean {
  if (host.toLowerCase() === "localhost") return true;
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  return ipaddr.isValid(bare) && ipaddr.process(bare).range() === "loopback";
}
