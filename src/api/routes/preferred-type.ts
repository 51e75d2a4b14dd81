// Whether a client would rather have a page than JSON (RFC 9110, section 12.5.1). Pure.

/** Only one that names `text/html`, as browsers do, and values JSON no higher. */
export function prefersHtml(accept: string | null): boolean {
  const html = quality(accept ?? "", "text/html");
  return html > 0 && html >= quality(accept ?? "", "application/json");
}

/** 0: not named. */
function quality(accept: string, type: string): number {
  for (const range of accept.toLowerCase().split(",")) {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (name !== type) continue;
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    return weight === undefined ? 1 : Number(weight.slice(2)) || 0;
  }
  return 0;
}
