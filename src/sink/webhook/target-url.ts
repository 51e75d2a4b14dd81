// Where a table's requests go: the base address with the path template appended. Pure.

/**
 * `template` with `{schema}` and `{table}` replaced, percent-encoded, behind `base`. One slash stands
 * between the two; a query of the base comes before one of the template.
 */
export function targetUrl(base: string, template: string, schema: string, table: string): string {
  const names: Readonly<Record<string, string>> = { schema, table };
  const expanded = template.replace(/\{(schema|table)\}/g, (_, name: string) =>
    encodeURIComponent(names[name]!),
  );
  const url = new URL(base);
  if (expanded === "") return url.href;
  const at = expanded.indexOf("?");
  const path = at < 0 ? expanded : expanded.slice(0, at);
  const query = at < 0 ? "" : expanded.slice(at + 1);
  const search = [url.search.slice(1), query].filter((part) => part !== "").join("&");
  const joined =
    path === "" ? url.pathname : `${url.pathname.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
  return `${url.origin}${joined}${search === "" ? "" : `?${search}`}`;
}
