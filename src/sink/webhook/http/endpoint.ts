// Where connections go. Pure.

import ipaddr from "ipaddr.js";

export interface Endpoint {
  /** Connections to endpoints of one name can stand for each other. */
  readonly name: string;
  /** An IP address. */
  readonly address: string;
  readonly port: number;
  /** The name that the certificate is to be of; null: without TLS. */
  readonly tlsName: string | null;
}

/** `address` in the place of the URL's host, whose name stays that of the certificate. */
export function endpointOf(url: URL, address: string): Endpoint {
  const bare = address.replace(/%.*$/, "");
  const port = portOf(url);
  // A literal has brackets in a URL, and none in a certificate.
  const tlsName = url.protocol === "https:" ? url.hostname.replace(/^\[|\]$/g, "") : null;
  const literal = ipaddr.IPv6.isValid(bare) ? `[${bare}]` : bare;
  return { name: `${url.protocol}//${literal}:${port} ${tlsName}`, address: bare, port, tlsName };
}

export function portOf({ protocol, port }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}
