// The `verify` command: compares tables at the sink with their source. Its exit code tells whether something differs.

import type { TableState, TableStatus, TableStatuses } from "../connector/table-status.ts";
import { type Task, type VerifySpec, verifyResultOf } from "../connector/task.ts";
import { connectorPath } from "./apply-connectors.ts";
import { CommandFailure } from "./service-client.ts";
import { tasksPath, untilOver } from "./task-commands.ts";
import { parseTableName } from "./text/table-name.ts";
import { foundText } from "./text/task-lines.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";
import { oneLine } from "./text/text-table.ts";

export interface VerifyFlags {
  readonly repair?: string;
  readonly sample?: string;
  readonly watch?: boolean;
}

const repairs: Readonly<Record<string, VerifySpec["repair"]>> = { "dry-run": "DryRun", apply: "Apply" };
/** Keys that are printed of each table. */
const maxPrinted = 10;

/** Why a table that the connector takes cannot be compared now. */
const whyNot: Readonly<Record<Exclude<TableState, "Streaming" | "Excluded">, string>> = {
  Waiting: "it waits to be copied",
  Copying: "it is being copied",
  Resuming: "it waits for the comparison after a lost slot",
  SetAside: "it is set aside",
  Unreadable: "the source does not let it be read",
};

/**
 * `table` undefined: all tables that are streamed; the others of the connector are named. Without `watch` it returns when the tasks are created.
 * Throws when something differs, or could not be compared.
 */
export async function verifyTables(
  context: CommandContext,
  connector: string,
  table: string | undefined,
  { repair, sample, watch = false }: VerifyFlags,
): Promise<void> {
  const { terminal, json } = context;
  const how = { repair: repairOf(repair), ...percentOf(sample) };
  const { named, left } =
    table === undefined
      ? await streamedTables(context, connector)
      : { named: [parseTableName(table)], left: 0 };
  const created: Task[] = [];
  for (const name of named) {
    const spec = { ...name, ...how };
    const { body } = await context.client.call<Task>("POST", tasksPath(connector), { Verify: spec });
    created.push(body);
  }
  const tasks = watch ? await untilOver(context, connector, created) : created;
  if (json) printJson(terminal, tasks);
  else for (const line of tasks.flatMap(linesOf)) terminal.print(oneLine(line));
  if (watch) requireEqual(tasks, left);
}

/** `left`: how many of the connector's tables cannot be compared now. */
async function streamedTables({ client, terminal }: CommandContext, connector: string) {
  const { body } = await client.call<TableStatuses>("GET", `${connectorPath(connector)}/tables`);
  const streamed = body.tables.filter(({ state }) => state === "Streaming");
  const left = body.tables.flatMap((table) => notCompared(table) ?? []);
  for (const line of left) terminal.warn(oneLine(line));
  if (streamed.length === 0) throw new CommandFailure(`No table of ${connector} is known to be streamed.`);
  return { named: streamed.map(({ schema, name }) => ({ schema, name })), left: left.length };
}

/** Null: it is compared, or is none of the connector's. */
function notCompared({ schema, name, state }: TableStatus): string | null {
  if (state === "Streaming" || state === "Excluded") return null;
  return `${schema}.${name}: not compared, ${whyNot[state]}`;
}

/** `left`: tables that were not compared. */
function requireEqual(tasks: readonly Task[], left: number): void {
  const failed = tasks.filter(({ state }) => state !== "Done");
  const differing = tasks
    .map(verifyResultOf)
    .filter((result) => result && result.missing + result.extra + result.changed > 0);
  const problems = [
    ...failed.map(({ state, reason, spec }) => `${nameOf(spec)}: not compared, ${reason ?? state}`),
    ...(differing.length > 0
      ? [`${differing.length} of ${tasks.length} tables differed from their source.`]
      : []),
    ...(left > 0 ? [`Not compared: ${left} of ${tasks.length + left} tables of the connector.`] : []),
  ];
  if (problems.length > 0) throw new CommandFailure(problems.join("\n"));
}

/** Pure. */
function linesOf(task: Task): readonly string[] {
  const { id, spec, state } = task;
  const result = verifyResultOf(task);
  if (!result) return [`${nameOf(spec)}: ${state}, task ${id}`];
  const rows = result.sample.slice(0, maxPrinted).map(({ key, kind, columns }) => {
    const values = Object.entries(key).map(([name, value]) => `${name} = ${value}`);
    return `  ${kind} ${values.join(", ")}${columns.length > 0 ? `: ${columns.join(", ")}` : ""}`;
  });
  return [
    `${nameOf(spec)}: ${foundText(result)}, as of ${result.as_of_lsn}`,
    ...rows,
    ...(result.statements ?? []).map((statement) => `  ${statement}`),
  ];
}

function nameOf({ Verify: table }: Task["spec"]): string {
  return table ? `${table.schema}.${table.name}` : "";
}

function repairOf(flag: string | undefined): VerifySpec["repair"] {
  if (flag === undefined) return "None";
  const repair = repairs[flag];
  if (repair) return repair;
  throw new CommandFailure(`--repair takes dry-run or apply, and not ${flag}.`);
}

function percentOf(flag: string | undefined): { readonly sample_percent?: number } {
  if (flag === undefined) return {};
  const percent = Number(flag);
  if (percent >= 0.1 && percent <= 100) return { sample_percent: percent };
  throw new CommandFailure(`--sample takes percent of the rows, 0.1 to 100, and not ${flag}.`);
}
