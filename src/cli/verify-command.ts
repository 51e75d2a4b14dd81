// The `verify` command: compares tables at the sink with their source. Its exit code tells whether something differs.

import type { TableStatuses } from "../connector/table-status.ts";
import { type Task, type VerifySpec, verifyResultOf } from "../connector/task.ts";
import { connectorPath } from "./apply-connectors.ts";
import { CommandFailure } from "./service-client.ts";
import { parseTableName } from "./table-name.ts";
import { tasksPath, untilOver } from "./task-commands.ts";
import { foundText } from "./task-lines.ts";
import { type CommandContext, printJson } from "./terminal.ts";
import { oneLine } from "./text-table.ts";

export interface VerifyFlags {
  readonly repair?: string;
  readonly sample?: string;
  readonly watch?: boolean;
}

const repairs: Readonly<Record<string, VerifySpec["repair"]>> = { "dry-run": "DryRun", apply: "Apply" };
/** Keys that are printed of each table. */
const maxPrinted = 10;

/** `table` undefined: all tables that are streamed. Without `watch` it returns when the tasks are created. Throws when something differs. */
export async function verifyTables(
  context: CommandContext,
  connector: string,
  table: string | undefined,
  { repair, sample, watch = false }: VerifyFlags,
): Promise<void> {
  const { terminal, json } = context;
  const how = { repair: repairOf(repair), ...percentOf(sample) };
  const named = table === undefined ? await streamedTables(context, connector) : [parseTableName(table)];
  const created: Task[] = [];
  for (const name of named) {
    const spec = { ...name, ...how };
    const { body } = await context.client.call<Task>("POST", tasksPath(connector), { Verify: spec });
    created.push(body);
  }
  const tasks = watch ? await untilOver(context, connector, created) : created;
  if (json) printJson(terminal, tasks);
  else for (const line of tasks.flatMap(linesOf)) terminal.print(oneLine(line));
  if (watch) requireEqual(tasks);
}

async function streamedTables({ client }: CommandContext, connector: string) {
  const { body } = await client.call<TableStatuses>("GET", `${connectorPath(connector)}/tables`);
  const streamed = body.tables.filter(({ state }) => state === "Streaming");
  if (streamed.length === 0) throw new CommandFailure(`No table of ${connector} is known to be streamed.`);
  return streamed.map(({ schema, name }) => ({ schema, name }));
}

function requireEqual(tasks: readonly Task[]): void {
  const failed = tasks.filter(({ state }) => state !== "Done");
  const differing = tasks
    .map(verifyResultOf)
    .filter((result) => result && result.missing + result.extra + result.changed > 0);
  if (failed.length > 0) {
    throw new CommandFailure(
      failed.map(({ state, reason, spec }) => `${nameOf(spec)}: ${reason ?? state}`).join("\n"),
    );
  }
  if (differing.length > 0)
    throw new CommandFailure(`${differing.length} of ${tasks.length} tables differed from their source.`);
}

/** Pure. */
export function linesOf(task: Task): readonly string[] {
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
