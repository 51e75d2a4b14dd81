// What a connector will do, in a few words, whatever its configuration is yet. Pure.

import type { CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { sinkKind, sinkName, sourceName, withoutCredentials } from "../../../connector/endpoints.ts";
import { grouped } from "../../../text/numbers.ts";
import { type KnownTables, Selection } from "../catalog/selection.ts";
import { valueAt } from "./pointer.ts";

export interface SummaryLine {
  readonly label: string;
  readonly value: string;
}

/** `defaults`: what the API fills in. `known`: the tables of the source; null: not asked, or they did not come. */
export function summaryOf(
  draft: JsonObject,
  defaults: JsonObject | null,
  known: KnownTables | null,
): readonly SummaryLine[] {
  const connector = draft as unknown as ConnectorRequest;
  const catalog = valueAt(draft, "/source/postgres/catalog") as CatalogRequest | undefined;
  const address = valueAt(draft, "/sink/webhook") ? requestAddress(draft, defaults) : null;
  return [
    { label: "From", value: safely(() => sourceName(connector)) },
    { label: "To", value: safely(() => `${sinkKind(connector)}: ${address ?? sinkName(connector)}`) },
    { label: "Tables", value: tablesText(catalog, known) },
    {
      label: "Tables that are created later",
      value: catalog?.default_action === "Exclude" ? "Left out" : "Carried, too",
    },
  ];
}

/**
 * Where requests will go, with the template as it is: appended to the URL's path, as the sink does it. What the form leaves out is what the
 * API puts in. Null: there is no URL yet.
 */
function requestAddress(draft: JsonObject, defaults: JsonObject | null): string | null {
  const base = valueAt(draft, "/sink/webhook/url");
  const place = "/sink/webhook/path_template";
  const template = String(valueAt(draft, place) ?? valueAt(defaults ?? {}, place) ?? "");
  if (typeof base !== "string" || base === "") return null;
  const [address = "", search = ""] = splitAtQuery(withoutCredentials(base).replace(/#.*$/, ""));
  const [path = "", query = ""] = splitAtQuery(template);
  const joined = path === "" ? address : `${address.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
  const both = [search, query].filter((part) => part !== "").join("&");
  return both === "" ? joined : `${joined}?${both}`;
}

function splitAtQuery(text: string): readonly string[] {
  const at = text.indexOf("?");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** The configuration may be anything yet. */
function safely(text: () => string): string {
  try {
    return text().replaceAll("undefined", "…");
  } catch {
    return "…";
  }
}

function tablesText(catalog: CatalogRequest | undefined, known: KnownTables | null): string {
  if (!catalog) return "All";
  if (!known)
    return catalog.default_action === "Exclude" ? "Only those that are named" : "All but those left out";
  const selection = new Selection(catalog);
  const all = known.flatMap(({ name, tables }) =>
    tables.map((table) => selection.hasTable(name, table.name)),
  );
  return `${grouped(all.filter(Boolean).length)} of ${grouped(all.length)}`;
}
