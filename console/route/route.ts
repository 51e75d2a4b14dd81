// The pages and their addresses. Pure.

export const connectorTabs = [
  "overview",
  "tables",
  "tasks",
  "parked",
  "rows",
  "history",
  "doctor",
  "configuration",
] as const;
export type ConnectorTab = (typeof connectorTabs)[number];

/** The steps of the form of a connector; `json`: all of it as text. */
export const editSteps = ["source", "sink", "tables", "review", "json"] as const;
export type EditStep = (typeof editSteps)[number];

export type Route =
  | { readonly page: "connectors" }
  | { readonly page: "connector"; readonly id: string; readonly tab: ConnectorTab }
  /** `from`: the connector whose configuration to begin with. */
  | { readonly page: "new"; readonly from: string | null; readonly step?: EditStep }
  | { readonly page: "edit"; readonly id: string; readonly step?: EditStep }
  | { readonly page: "service" }
  | { readonly page: "unknown" };

const base = "/console";

export function routeOf(path: string, search = ""): Route {
  if (path === "/" || path === base || path === `${base}/`) return { page: "connectors" };
  const [first, second, third, ...more] = path
    .slice(base.length + 1)
    .split("/")
    .map(decoded);
  if (!path.startsWith(`${base}/`) || more.length > 0) return { page: "unknown" };
  if (first === "service" && second === undefined) return { page: "service" };
  const query = new URLSearchParams(search);
  if (first === "new" && second === undefined)
    return { page: "new", from: query.get("from"), ...stepOf(query) };
  if (first !== "connectors" || !second) return { page: "unknown" };
  if (third === "edit") return { page: "edit", id: second, ...stepOf(query) };
  const tab = connectorTabs.find((name) => name === (third ?? "overview"));
  return tab ? { page: "connector", id: second, tab } : { page: "unknown" };
}

export function addressOf(route: Exclude<Route, { page: "unknown" }>): string {
  switch (route.page) {
    case "connectors":
      return "/";
    case "service":
      return `${base}/service`;
    case "new":
      return `${base}/new${queryOf({ from: route.from, step: route.step })}`;
    case "edit":
      return `${connectorAddress(route.id)}/edit${queryOf({ step: route.step })}`;
    case "connector":
      return route.tab === "overview"
        ? connectorAddress(route.id)
        : `${connectorAddress(route.id)}/${route.tab}`;
  }
}

function stepOf(query: URLSearchParams): { readonly step?: EditStep } {
  const step = editSteps.find((name) => name === query.get("step"));
  return step ? { step } : {};
}

function queryOf(parameters: Readonly<Record<string, string | null | undefined>>): string {
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

function connectorAddress(id: string): string {
  return `${base}/connectors/${encodeURIComponent(id)}`;
}

/** A broken escape is part of no address of ours. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
