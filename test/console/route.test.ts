import { describe, expect, test } from "bun:test";
import { addressOf, connectorTabs, type Route, routeOf } from "../../console/route/route.ts";

describe("addresses", () => {
  const routes: Exclude<Route, { page: "unknown" }>[] = [
    { page: "connectors" },
    { page: "service" },
    { page: "new", from: null },
    { page: "new", from: "orders" },
    { page: "new", from: "orders", step: "sink" },
    { page: "edit", id: "orders" },
    { page: "edit", id: "orders", step: "json" },
    ...connectorTabs.map((tab) => ({ page: "connector" as const, id: "a-b_C", tab })),
  ];
  test.each(routes.map((route) => [addressOf(route), route] as const))("%s leads back", (_, route) => {
    const { pathname, search } = new URL(addressOf(route), "http://localhost");
    expect(routeOf(pathname, search)).toEqual(route);
  });

  test.each([
    "/console/nothing",
    "/console/connectors",
    "/console/connectors/a/b/c",
    "/console/connectors/a/nothing",
    "/other",
    "/console/service/x",
  ])("of no page: %s", (path) => {
    expect(routeOf(path)).toEqual({ page: "unknown" });
  });

  test("with a broken escape name a connector that is not there, and break nothing", () => {
    expect(routeOf("/console/connectors/%E0%A4%A")).toEqual({
      page: "connector",
      id: "%E0%A4%A",
      tab: "overview",
    });
  });
});
