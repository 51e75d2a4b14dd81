// The dashboard and the alert rules ask for metrics that there are.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { RuntimeFixture } from "../support/runtime-fixture.ts";

const deploy = join(import.meta.dirname, "..", "..", "deploy");
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
