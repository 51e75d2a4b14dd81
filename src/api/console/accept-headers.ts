// What a client accepts (RFC 9110, section 12.5): a page rather than JSON, and compression. Pure.

/** Only a client that names `text/html`, as browsers do, and values JSON no higher. */
export function prefersHtml(accept: string | null): boolean {
  const html = quality(accept ?? "", "text/html");
  return html > 0 && html >= quality(accept ?? "", "application/json");
}

/** @param acceptEncoding the header `Accept-Encoding` */
export function acceptsGzip(acceptEncoding: string | null): boolean {
  return quality(acceptEncoding ?? "", "gzip") > 0;
}

/** 0: not named. */
function quality(accepted: string, wanted: string): number {
  for (const range of accepted.toLowerCase().split(",")) {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (name !== wanted) continue;
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    return weight === undefined ? 1 : Number(weight.slice(2)) || 0;
  }
  return 0;
}
