// The path of a request's URL, whatever the client sent. `new URL` throws for some requests that a server gets: with an
// invalid Host header, or with none (HTTP/1.0, as some load balancers use for health checks).

/** From the first slash after the host up to `?` or `#`, not decoded. */
export function requestPath(url: string): string {
  const [, path = ""] = /^(?:[a-z][a-z0-9+.-]*:\/\/[^/?#]*)?([^?#]*)/i.exec(url) ?? [];
  return path === "" ? "/" : path;
}

/** Whether the method only reads. A HEAD is answered as the GET. */
export function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}
