// Where a table's requests go: the base address with the path template appended. Pure.

import { MillraceError } from "../../errors/millrace-error.ts";

const placeholder = /\{(schema|table)\}/g;
/** A part of a path that a URL takes for its folder, or the one above: also percent-encoded, so there is no way to write it as a name. */
const dots = /^(?:\.|%2e){1,2}$/i;

/**
 * `template` with `{schema}` and `{table}` replaced, percent-encoded, behind `base`. One slash stands
 * between the two; a query of the base comes before one of the template.
 *
 * Throws `webhook_address_refused` where a name would lead to another path: whoever names a schema does not say where its rows go.
 */
export function targetUrl(base: string, template: string, schema: string, table: string): string {
  const names: Readonly<Record<string, string>> = { schema, table };
  const filled = (part: string) =>
    part.replace(placeholder, (_, name: string) => encodeURIComponent(names[name]!));
  const parts = template.split("?", 1)[0]!.split(/[/\\]/);
  const misleading = parts.find((part) => part !== filled(part) && dots.test(filled(part)));
  if (misleading !== undefined) {
    const text =
      `the names of schema ${schema} and table ${table} make ${filled(misleading)} a part of the path, which leads elsewhere. Set path_template to ` +
      "one with more than that name between two slashes, as {schema}.{table}, or exclude the table";
    throw new MillraceError("webhook_address_refused", text);
  }
  const expanded = filled(template);
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
