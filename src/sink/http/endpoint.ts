// The endpoint of a connection. Pure.

import ipaddr from "ipaddr.js";

export interface Endpoint {
  /** Connections to endpoints of one name are interchangeable. */
  readonly name: string;
  /** An IP address. */
  readonly address: string;
  readonly port: number;
  /** The name that the certificate has to be for; null: without TLS. */
  readonly tlsName: string | null;
  /** Certificates. */
  readonly tls: Bun.TLSOptions;
}

/** The URL's endpoint, with `address` in place of the host. The certificate still has to be for the host's name. */
export function endpointOf(url: URL, address: string, tls: Bun.TLSOptions = {}): Endpoint {
  const bare = address.replace(/%.*$/, "");
  const port = portOf(url);
  // An IPv6 address has brackets in a URL, and none in a certificate.
  const tlsName = url.protocol === "https:" ? url.hostname.replace(/^\[|\]$/g, "") : null;
  const literal = ipaddr.IPv6.isValid(bare) ? `[${bare}]` : bare;
  return { name: `${url.protocol}//${literal}:${port} ${tlsName}`, address: bare, port, tlsName, tls };
}

export function portOf({ protocol, port }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}
