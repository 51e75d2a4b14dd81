// The path of a request's URL, whatever the client wrote. `new URL` throws for what a server may be sent: a
// Host header that is no host, or none at all (HTTP/1.0, as some load balancers ask for health).

/** From the first slash after the host up to `?` or `#`; not decoded. */
export function requestPath(url: string): string {
  const [, path = ""] = /^(?:[a-z][a-z0-9+.-]*:\/\/[^/?#]*)?([^?#]*)/i.exec(url) ?? [];
  return path === "" ? "/" : path;
}
