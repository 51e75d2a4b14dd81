// The `tasks` commands. Each prints its outcome, or throws CommandFailure.

import type { Task } from "../connector/task.ts";
import { connectorPath } from "./apply-connectors.ts";
import { CommandFailure } from "./service-client.ts";
import { parseTableName } from "./table-name.ts";
import { isOver, loggedLine, taskTable, watchedLines } from "./task-lines.ts";
import { type CommandContext, printJson } from "./terminal.ts";

const pollMs = 500;

export interface SnapshotFlags {
  readonly truncate?: boolean;
  readonly forceParallel?: boolean;
  readonly watch?: boolean;
}

/** `watch`: shows the unfinished tasks until they are finished. */
export async function listTasks(context: CommandContext, connector: string, watch: boolean): Promise<void> {
  const { terminal, json } = context;
  const tasks = await all(context, connector);
  if (watch) {
    const open = tasks.filter((task) => !isOver(task));
    if (open.length > 0) return await watchTasks(context, connector, open);
  }
  if (json) return printJson(terminal, tasks);
  if (tasks.length === 0) return terminal.print(`${connector} has no tasks.`);
  terminal.print(taskTable(tasks, terminal.width));
}

/** Returns when the task is created, or, with `watch`, when it is done. */
export async function createSnapshot(
  context: CommandContext,
  connector: string,
  table: string,
  { truncate = false, forceParallel = false, watch = false }: SnapshotFlags,
): Promise<void> {
  const spec = { ...parseTableName(table), truncate, force_parallel: forceParallel };
  const { body: task } = await context.client.call<Task>("POST", tasksPath(connector), { Snapshot: spec });
  if (watch) return await watchTasks(context, connector, [task]);
  show(context, task);
}

export async function getTask(
  context: CommandContext,
  connector: string,
  id: string,
  watch: boolean,
): Promise<void> {
  const task = await one(context, connector, id);
  if (watch) return await watchTasks(context, connector, [task]);
  show(context, task);
}

export async function moveTask(
  context: CommandContext,
  connector: string,
  id: string,
  move: "cancel" | "retry",
): Promise<void> {
  show(context, (await context.client.call<Task>("POST", `${taskPath(connector, id)}/${move}`)).body);
}

/** Returns when all tasks are done. Throws when one has failed or was cancelled. */
async function watchTasks(context: CommandContext, connector: string, first: readonly Task[]): Promise<void> {
  const tasks = await untilOver(context, connector, first);
  if (context.json) printJson(context.terminal, tasks);
  const failed = tasks.filter(({ state }) => state !== "Done");
  if (failed.length > 0) {
    throw new CommandFailure(failed.map(({ id, state, reason }) => `${id}: ${reason ?? state}`).join("\n"));
  }
}

/** Shows how far the tasks are. Returns them when all are over. */
export async function untilOver(
  context: CommandContext,
  connector: string,
  first: readonly Task[],
): Promise<readonly Task[]> {
  const { terminal, json } = context;
  let tasks = first;
  let printed = new Map<string, Task>();
  while (true) {
    if (!json && terminal.repaint) terminal.repaint(watchedLines(tasks, terminal.width));
    else if (!json) {
      for (const task of tasks) {
        const line = loggedLine(task, printed.get(task.id));
        if (line !== null) terminal.print(line);
      }
      printed = new Map(tasks.map((task) => [task.id, task]));
    }
    if (tasks.every(isOver)) return tasks;
    await Bun.sleep(pollMs);
    tasks = await Promise.all(tasks.map((task) => (isOver(task) ? task : one(context, connector, task.id))));
  }
}

async function all({ client }: CommandContext, connector: string): Promise<readonly Task[]> {
  return (await client.call<Task[]>("GET", tasksPath(connector))).body;
}

async function one({ client }: CommandContext, connector: string, id: string): Promise<Task> {
  return (await client.call<Task>("GET", taskPath(connector, id))).body;
}

function show({ terminal, json }: CommandContext, task: Task): void {
  if (json) printJson(terminal, task);
  else terminal.print(taskTable([task], terminal.width));
}

export function tasksPath(connector: string): string {
  return `${connectorPath(connector)}/tasks`;
}

function taskPath(connector: string, id: string): string {
  if (id === "" || id === "." || id === "..") throw new CommandFailure(`"${id}" is no task's id.`);
  return `${tasksPath(connector)}/${encodeURIComponent(id)}`;
}
