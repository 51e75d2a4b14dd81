// The `replay` command: sends rows of a table to a webhook or Kafka again.

import { type GivenKey, maxReplayKeys } from "../connector/replay.ts";
import { replayResultOf, type Task } from "../connector/task.ts";
import { CommandFailure } from "./service-client.ts";
import { tasksPath, untilOver } from "./task-commands.ts";
import { parseTableName } from "./text/table-name.ts";
import { sentText } from "./text/task-lines.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";
import { oneLine } from "./text/text-table.ts";

/** Keys without a row that are printed. */
const maxPrinted = 10;

export interface ReplayFlags {
  readonly all?: boolean;
  readonly watch?: boolean;
}

/**
 * The whole table is sent only where `all` says so: a list of keys that came out empty must not send it. Without `watch` it returns when the
 * task is created. Throws when it has failed, or a key has no row.
 */
export async function replayRows(
  context: CommandContext,
  connector: string,
  table: string,
  keys: readonly string[],
  { all = false, watch = false }: ReplayFlags,
): Promise<void> {
  const { client, terminal, json } = context;
  if (all === keys.length > 0)
    throw new CommandFailure("Name the keys of the rows, or send the whole table with --all; not both.");
  const given = all ? {} : { keys: parseKeys(keys) };
  const Replay = { ...parseTableName(table), ...given };
  const { body } = await client.call<Task>("POST", tasksPath(connector), { Replay });
  const tasks = watch ? await untilOver(context, connector, [body]) : [body];
  if (json) printJson(terminal, tasks);
  else for (const line of tasks.flatMap(replayLines)) terminal.print(oneLine(line));
  if (watch) requireSent(tasks);
}

function requireSent(tasks: readonly Task[]): void {
  for (const task of tasks) {
    if (task.state !== "Done") throw new CommandFailure(task.reason ?? task.state);
    const missing = replayResultOf(task)?.missing.length ?? 0;
    if (missing > 0) throw new CommandFailure(`${missing} of the keys have no row at the source.`);
  }
}

/** Pure. */
export function replayLines(task: Task): readonly string[] {
  const { id, state, spec } = task;
  const name = `${spec.Replay?.schema}.${spec.Replay?.name}`;
  const sent = replayResultOf(task);
  if (!sent) return [`${name}: ${state}, task ${id}`];
  return [
    `${name}: ${sentText(sent)}, as of ${sent.as_of_lsn}`,
    ...sent.missing.slice(0, maxPrinted).map((key) => `  no row ${JSON.stringify(key)}`),
  ];
}

/** Each is JSON: an object. The service checks its values. Throws CommandFailure. */
export function parseKeys(texts: readonly string[]): readonly GivenKey[] {
  if (texts.length > maxReplayKeys)
    throw new CommandFailure(`At most ${maxReplayKeys} rows can be named; --all sends the whole table.`);
  return texts.map((text) => {
    const key = parsed(text);
    if (typeof key === "object" && key !== null && !Array.isArray(key)) return key as GivenKey;
    throw new CommandFailure(`${text} is no key: write JSON, such as '{"id": 7}'.`);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
