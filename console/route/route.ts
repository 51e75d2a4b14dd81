// The pages and their addresses. Pure.

export const connectorTabs = ["overview", "tables", "tasks", "history", "doctor", "configuration"] as const;
export type ConnectorTab = (typeof connectorTabs)[number];

export type Route =
  | { readonly page: "connectors" }
  | { readonly page: "connector"; readonly id: string; readonly tab: ConnectorTab }
  /** `from`: the connector whose configuration to begin with. */
  | { readonly page: "new"; readonly from: string | null }
  | { readonly page: "edit"; readonly id: string }
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
  if (first === "new" && second === undefined)
    return { page: "new", from: new URLSearchParams(search).get("from") };
  if (first !== "connectors" || !second) return { page: "unknown" };
  if (third === "edit") return { page: "edit", id: second };
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
      return route.from === null ? `${base}/new` : `${base}/new?from=${encodeURIComponent(route.from)}`;
    case "edit":
      return `${connectorAddress(route.id)}/edit`;
    case "connector":
      return route.tab === "overview"
        ? connectorAddress(route.id)
        : `${connectorAddress(route.id)}/${route.tab}`;
  }
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
