// The measurements of replicas as tables in Markdown.

import type { StateLoad } from "./state-meter.ts";

export interface Measured {
  readonly what: string;
  readonly load: StateLoad;
  /** Shares of a core. */
  readonly replicaCpu: readonly number[];
}

type Row = readonly [name: string, read: (measured: Measured) => string];

const percent = (part: number) => `${(100 * part).toFixed(1)} %`;
const perSecond = (count: number) => (count < 10 ? count.toFixed(2) : count.toFixed(0));

const rows: readonly Row[] = [
  ["Statements/s", ({ load }) => perSecond(load.statements)],
  ["Transactions/s", ({ load }) => perSecond(load.transactions)],
  ["Log flushes/s", ({ load }) => perSecond(load.walSyncs)],
  ["Log, kB/s", ({ load }) => perSecond(load.walBytes / 1_000)],
  ["CPU of the state's server", ({ load }) => percent(load.cpu)],
  [
    "CPU of each replica",
    ({ replicaCpu }) => percent(replicaCpu.reduce((sum, cpu) => sum + cpu, 0) / replicaCpu.length),
  ],
];

export function table(measured: readonly Measured[]): string {
  const tables = new Set(measured.flatMap(({ load }) => load.tables.map(({ table: name }) => name)));
  const writes = [...tables].sort().map((name): Row => {
    const of = ({ load }: Measured) => load.tables.find((one) => one.table === name)?.rows ?? 0;
    return [`Rows/s in \`${name}\``, (one) => perSecond(of(one))];
  });
  return markdown(
    ["", ...measured.map(({ what }) => what)],
    [...rows, ...writes].map(([name, read]) => [name, ...measured.map(read)]),
  );
}

/** The statements that take most of the server's time. */
export function tableOfStatements(measured: Measured | undefined, count = 8): string {
  const costly = measured?.load.costly.slice(0, count) ?? [];
  return markdown(
    [`Statement (${measured?.what})`, "Calls/s", "ms of a second"],
    costly.map(({ text, calls, ms }) => [
      `\`${text.replace(/\s+/g, " ").replaceAll("|", "/").slice(0, 100)}\``,
      perSecond(calls),
      perSecond(ms),
    ]),
  );
}

function markdown(head: readonly string[], body: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, i) => (i === 0 ? "---" : "---:"));
  return ["", line(head), line(rule), ...body.map(line), ""].join("\n");
}
