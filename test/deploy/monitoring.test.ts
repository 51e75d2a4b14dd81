// The dashboard and the alert rules ask for metrics that there are.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";

const root = join(import.meta.dirname, "..", "..");
const [deploy, docs] = [join(root, "deploy"), join(root, "docs")];
const dashboard = JSON.parse(readFileSync(join(deploy, "grafana-dashboard.json"), "utf8"));
const rules = Bun.YAML.parse(readFileSync(join(deploy, "prometheus-rules.yml"), "utf8")) as {
  groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[];
};
const alerts = rules.groups.flatMap((group) => group.rules);

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly gridPos: { x: number; y: number; w: number; h: number };
  readonly targets?: readonly { expr: string }[];
}
const panels: readonly Panel[] = dashboard.panels;

/** By name: the labels that its series have beside those of Prometheus. */
async function described(): Promise<ReadonlySet<string>> {
  await using runtime = await RuntimeFixture.open();
  const text = await runtime.metrics.text();
  return new Set([...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name ?? ""));
}

function asked(expressions: readonly string[]): string[] {
  const names = expressions.flatMap((text) => text.match(/\b(?:millrace|process)_[a-z0-9_]+/g) ?? []);
  return [...new Set(names.map((name) => name.replace(/_(?:bucket|sum|count)$/, "")))];
}

test("every metric of the dashboard and of the rules exists, and every metric is shown", async () => {
  const known = await described();
  const shown = asked(panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)));
  const variables = asked(
    dashboard.templating.list.map(({ query }: { query: unknown }) => JSON.stringify(query)),
  );
  const watched = asked(alerts.map(({ expr }) => expr));
  expect([...shown, ...variables, ...watched].filter((name) => !known.has(name))).toEqual([]);
  expect([...known].filter((name) => ![...shown, ...variables].includes(name))).toEqual([]);
  expect(watched.length).toBeGreaterThan(5);
});

/** The connectors for which `sum by (connector) (metric) == 0` holds, in a scrape. */
function withoutAny(expression: string, text: string): string[] {
  const [, metric = "?"] = /^sum by \(connector\) \((\w+)\) == 0$/.exec(expression) ?? [];
  const sums = new Map<string, number>();
  for (const [, connector = "", n] of text.matchAll(
    new RegExp(`^${metric}\\{connector="([^"]*)".*\\} (\\d+)$`, "gm"),
  ))
    sums.set(connector, (sums.get(connector) ?? 0) + Number(n));
  return [...sums].filter(([, sum]) => sum === 0).map(([connector]) => connector);
}

test("the rule for connectors without a holder, which the documentation names, matches when there is one", async () => {
  const { expr = "" } = alerts.find(({ alert }) => alert === "MillraceConnectorLeftAlone") ?? {};
  expect(readFileSync(join(docs, "replicas.md"), "utf8")).toContain(`\`${expr}\``);
  await using runtime = await RuntimeFixture.open();
  runtime.board.begin("held", "run");
  expect(withoutAny(expr, await runtime.metrics.text())).toEqual([]);
  runtime.leftAlone.add("alone");
  expect(withoutAny(expr, await runtime.metrics.text())).toEqual(["alone"]);
});

test("the table of the documentation has every metric, and no other one", async () => {
  const page = readFileSync(join(docs, "alerts-and-metrics.md"), "utf8");
  const rows = page.match(/^\| `(?:millrace|process)_[^|]*/gm) ?? [];
  const table = rows.flatMap((cell) => cell.match(/\w+_\w+/g) ?? []);
  expect(table.toSorted()).toEqual([...(await described())].toSorted());
});

test("a service that is not ready has a rule", () => {
  expect(alerts.map(({ expr }) => expr)).toContain("millrace_ready == 0");
});

test("panels have a title, something to show, and a place of their own", () => {
  const taken = new Set<string>();
  for (const { type, title, targets, gridPos } of panels) {
    expect(title).not.toBe("");
    if (type !== "row") expect(targets?.length).toBeGreaterThan(0);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect(taken.has(`${x} ${y}`)).toBe(false);
        taken.add(`${x} ${y}`);
      }
    }
  }
});

test("every alert says what is wrong and what to do", () => {
  for (const { alert, annotations } of alerts) {
    expect(alert).toStartWith("Millrace");
    expect(annotations.summary).toBeString();
    expect(annotations.action).toBeString();
  }
});
