// The head of a request (RFC 9112, sections 3 and 5). Pure.

/** What all requests to one address share: request line, Host and headers, each line with its end. */
export function requestStart(
  url: URL,
  headers: Readonly<Record<string, string>>,
  method: "GET" | "POST" = "POST",
): string {
  return `${method} ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n${headerLines(headers)}`;
}

/** The head of one request, one byte to a character: a header's value is Latin-1. `length`: bytes of its body. */
export function requestHead(
  start: string,
  headers: Readonly<Record<string, string>>,
  length: number,
): string {
  return `${start}${headerLines(headers)}content-length: ${length}\r\n\r\n`;
}

/** Throws TypeError for a value that would end a line, or the head, early. */
function headerLines(headers: Readonly<Record<string, string>>): string {
  let lines = "";
  for (const name in headers) {
    const value = headers[name]!;
    if (isUnsafe.test(name) || isUnsafe.test(value))
      throw new TypeError("a header holds a control character");
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

const isUnsafe = /[\0\r\n]|[^\0-\xff]/;
