// The `tasks` commands. Each prints its outcome, or throws CommandFailure.

import type { GivenConnector } from "../connector/connector.ts";
import type { Task } from "../connector/task.ts";
import { connectorPath } from "./apply-connectors.ts";
import { CommandFailure } from "./service-client.ts";
import { parseTableName } from "./text/table-name.ts";
import { isOver, loggedLine, taskTable, watchedLines } from "./text/task-lines.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";

const pollMs = 500;
/** While all tasks wait, how often their connector is looked at. */
const lookMs = 5_000;

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

/**
 * Shows how far the tasks are. Returns them when all are over. Throws CommandFailure when the service no longer tells, or when they wait for a
 * connector that stands: they would wait until somebody starts it.
 */
export async function untilOver(
  context: CommandContext,
  connector: string,
  first: readonly Task[],
): Promise<readonly Task[]> {
  const { client } = context;
  const show = progressOf(context);
  let tasks = first;
  let nextLook = performance.now() + lookMs;
  try {
    while (true) {
      show(tasks);
      if (tasks.every(isOver)) return tasks;
      if (performance.now() > nextLook && tasks.every((task) => isOver(task) || task.state === "Pending")) {
        requireGoing(await client.poll<GivenConnector>(connectorPath(connector)), "tasks");
        nextLook = performance.now() + lookMs;
      }
      await Bun.sleep(pollMs);
      const poll = (task: Task) => client.poll<Task>(taskPath(connector, task.id));
      tasks = await Promise.all(tasks.map((task) => (isOver(task) ? task : poll(task))));
    }
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    const open = tasks.filter((task) => !isOver(task)).map(({ id }) => id);
    const how = `Not over: ${open.join(", ")}. To go on watching: millrace tasks list ${connector} --watch`;
    throw new CommandFailure(`${error.message}\n${how}`, error.exitCode);
  }
}

/** Paints the tasks; where nothing can be painted, it prints what has changed. */
function progressOf({ terminal, json }: CommandContext): (tasks: readonly Task[]) => void {
  let printed = new Map<string, Task>();
  return (tasks) => {
    if (json) return;
    if (terminal.repaint) return terminal.repaint(watchedLines(tasks, terminal.width));
    for (const task of tasks) {
      const line = loggedLine(task, printed.get(task.id));
      if (line !== null) terminal.print(line);
    }
    printed = new Map(tasks.map((task) => [task.id, task]));
  };
}

/** Throws when the connector carries out no task, and sends nothing, before somebody acts. `what` waits meanwhile. */
export function requireGoing(
  { connector: { id }, status: { state, status } }: GivenConnector,
  what: "tasks" | "messages",
): void {
  if (status.failed)
    throw new CommandFailure(`${id} has failed, and its ${what} wait: ${status.failed.reason}`);
  if (state.disabled)
    throw new CommandFailure(`${id} is disabled, and its ${what} wait until it no longer is.`);
  if (what === "messages" && (state.complete || state.scheduled))
    throw new CommandFailure(
      `${id} sends nothing between its rounds, and its messages wait: "millrace connectors restart ${id}" copies again at once, and sends them`,
    );
  if (state.shutdown)
    throw new CommandFailure(`${id} is stopped, and its ${what} wait: millrace connectors start ${id}`);
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
