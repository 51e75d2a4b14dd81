// What a connector will do, in a few words, whatever its configuration is yet. Pure.

import type { CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { sinkKind, sinkName, sourceName } from "../../../connector/endpoints.ts";
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
  const path = valueAt(draft, "/sink/webhook") && pathOf(draft, defaults);
  return [
    { label: "From", value: safely(() => sourceName(connector)) },
    { label: "To", value: safely(() => `${sinkKind(connector)}: ${sinkName(connector)}`) },
    ...(path ? [{ label: "Path of its requests", value: path }] : []),
    { label: "Tables", value: tablesText(catalog, known) },
    {
      label: "Tables that are created later",
      value: catalog?.default_action === "Exclude" ? "Left out" : "Carried, too",
    },
  ];
}

/** Below the URL. What the form leaves out is what the API puts in. */
function pathOf(draft: JsonObject, defaults: JsonObject | null): string {
  const place = "/sink/webhook/path_template";
  return `/${String(valueAt(draft, place) ?? valueAt(defaults ?? {}, place) ?? "").replace(/^\//, "")}`;
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
