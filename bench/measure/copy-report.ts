// What was measured of copies, as docs/benchmarks.md shows it.

import type { ContenderName } from "../contenders/contender.ts";
import type { LoadSummary } from "./report.ts";

const columns = [
  "Copy",
  "Postgres /s",
  "psql /s",
  "pgcopydb /s",
  "millrace /s",
  "Ratio to Postgres",
  "Ratio to psql",
  "CPU of the service for a million rows",
  "Peak",
];

/** A Markdown table. Goals are in parentheses. */
export function formatCopies(summaries: readonly LoadSummary[]): string {
  const rule = columns.map((_, i) => (i === 0 ? "---" : "---:"));
  return [columns, rule, ...summaries.map(cells)].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function cells({ load, count, goal, by, ratios }: LoadSummary): readonly string[] {
  const own = by.millrace ?? by.webhook;
  const rateOf = (name: ContenderName) => rate(by[name]?.rate);
  const cpu = own?.serviceCpuSeconds;
  const peak = own?.peakBytes;
  return [
    load.replace(/^copies: /, ""),
    rateOf("postgres"),
    rateOf("psql"),
    rateOf("pgcopydb"),
    withGoal(rate(own?.rate), rate(goal.perSecond)),
    withGoal(ratio(ratios.rate), ratio(goal.rate)),
    withGoal(ratio(ratios.ofPipe), ratio(goal.ofPipe)),
    cpu == null ? "" : `${((cpu * 1e6) / count).toFixed(2)} s`,
    peak == null ? "" : `${Math.round(peak / 2 ** 20)} MB`,
  ];
}

function rate(value: number | undefined): string {
  return value === undefined ? "" : Math.round(value).toLocaleString("en-US");
}

function ratio(value: number | null | undefined): string {
  return value == null ? "" : String(Number(value.toFixed(2)));
}

function withGoal(value: string, goal: string): string {
  return goal === "" || value === "" ? value : `${value} (${goal})`;
}
