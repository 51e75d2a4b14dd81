// The `parked` commands: what was refused, and what waits behind it.

import type { GivenConnector } from "../connector/connector.ts";
import type { Parked, ParkedList, ParkedSelection } from "../connector/parked-message.ts";
import { connectorPath } from "./apply-connectors.ts";
import { CommandFailure } from "./service-client.ts";
import { requireGoing } from "./task-commands.ts";
import { parseTableName } from "./text/table-name.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";
import { oneLine, textTable } from "./text/text-table.ts";

/** Between two looks at how many are left. */
const pollMs = 500;
/** Where nothing is sent for so long, the connector's warning says what it waits for. */
const patienceMs = 5_000;

export interface SelectionFlags {
  readonly table?: string;
  readonly before?: string;
  readonly all?: boolean;
}

export interface ListFlags {
  readonly table?: string;
  readonly discarded?: boolean;
  readonly limit?: string;
  readonly after?: string;
}

/** One page; it says how to get the next. */
export async function listParked(
  context: CommandContext,
  connector: string,
  flags: ListFlags,
): Promise<void> {
  const { client, terminal, json } = context;
  const query = new URLSearchParams({
    ...(flags.limit === undefined ? {} : { limit: flags.limit }),
    ...(flags.after === undefined ? {} : { after: flags.after }),
    ...(flags.discarded ? { state: "Discarded" } : {}),
    ...tableOf(flags),
  });
  const { body } = await client.call<ParkedList>("GET", `${parkedPath(connector)}?${query}`);
  if (json) return printJson(terminal, body);
  if (body.parked.length === 0)
    return terminal.print(`Nothing of ${connector} is ${flags.discarded ? "discarded" : "parked"}.`);
  terminal.print(parkedTable(body.parked, terminal.width));
  if (body.next !== null) terminal.print(`More: --after ${body.next}`);
}

export async function showParked(
  { client, terminal, json }: CommandContext,
  connector: string,
  id: string,
  withBody: boolean,
): Promise<void> {
  const path = `${parkedPath(connector)}/${idPath(id)}${withBody ? "?body=1" : ""}`;
  const { body: parked } = await client.call<Parked>("GET", path);
  if (json) return printJson(terminal, parked);
  const { attempts, body, keys, ...facts } = parked;
  for (const [name, value] of Object.entries(facts)) terminal.print(oneLine(`${name}: ${value}`));
  terminal.print(oneLine(`keys: ${keys.map((key) => JSON.stringify(key)).join(" ")}`));
  for (const { at, status, error, answer } of attempts) {
    terminal.print(oneLine(`attempt ${at}: ${status ?? error ?? ""} ${answer ?? ""}`.trimEnd()));
  }
  if (body !== undefined) terminal.print(oneLine(body));
}

/** Without an id all messages that the flags select; all of them are discarded only where `--all` says so. */
export async function moveParked(
  { client, terminal, json }: CommandContext,
  connector: string,
  what: "retry" | "discard",
  id: string | undefined,
  flags: SelectionFlags,
): Promise<void> {
  const selection = selectionOf(flags);
  const isSelected = Object.keys(selection).length > 0;
  if (id !== undefined && (isSelected || flags.all)) {
    throw new CommandFailure("Name one message, or select several by --table and --before; not both.");
  }
  if (what === "discard" && id === undefined && !isSelected && !flags.all) {
    throw new CommandFailure(
      "Name a message, select several by --table and --before, or discard all with --all.",
    );
  }
  const path =
    id === undefined ? `${parkedPath(connector)}/${what}` : `${parkedPath(connector)}/${idPath(id)}/${what}`;
  const { body } = await client.call<{ count: number }>(
    "POST",
    path,
    id === undefined ? selection : undefined,
  );
  if (json) return printJson(terminal, body);
  const outcome = { retry: "will be sent again while the connector runs", discard: "discarded" }[what];
  terminal.print(`${counted(body.count)} ${outcome}.`);
}

/**
 * Has messages sent again, and shows how many of them are left until none is sent any more. Throws CommandFailure where some are parked still,
 * and where the connector sends nothing before somebody acts.
 */
export async function watchRetry(
  context: CommandContext,
  connector: string,
  id: string | undefined,
  flags: SelectionFlags,
): Promise<void> {
  const { client, terminal, json } = context;
  if (id !== undefined) {
    throw new CommandFailure(
      `--watch tells how many are left. Of one message: millrace parked show ${connector} ${id}`,
    );
  }
  // What is parked meanwhile would be counted too.
  const before =
    flags.before ?? (await client.call<ParkedList>("GET", listPath(connector, flags))).body.as_of;
  const chosen = { ...flags, before };
  await client.call("POST", `${parkedPath(connector)}/retry`, selectionOf(chosen));
  let [shown, since, told] = ["", 0, false];
  for (;;) {
    const { asked, total } = await client.poll<ParkedList>(listPath(connector, chosen));
    const line = `${counted(total)} parked, ${asked.toLocaleString("en-US")} to be sent again`;
    if (!json) terminal.repaint?.([line]);
    if (line !== shown) {
      if (!json && !terminal.repaint) terminal.print(line);
      [shown, since, told] = [line, performance.now(), false];
    }
    if (asked === 0) {
      if (json) printJson(terminal, { total });
      if (total > 0) throw new CommandFailure(`Still parked: millrace parked list ${connector}`);
      return;
    }
    const given = await client.poll<GivenConnector>(connectorPath(connector));
    requireGoing(given, "messages");
    const reason = given.status.status.warning?.reason;
    if (reason && !told && performance.now() - since > patienceMs) {
      // What is painted takes the place of the line before.
      terminal.warn(terminal.repaint ? `${reason}\n` : reason);
      told = true;
    }
    await Bun.sleep(pollMs);
  }
}

/** Pure. */
function parkedTable(parked: readonly Parked[], width: number): string {
  const rows = parked.map((each) => [
    each.id,
    `${each.schema}.${each.table}`,
    each.state,
    each.cause,
    each.rows.toLocaleString("en-US"),
    each.discarded_at ?? each.parked_at,
    each.keys.map((key) => JSON.stringify(key)).join(" "),
  ]);
  return textTable(["ID", "TABLE", "STATE", "CAUSE", "ROWS", "SINCE", "KEYS"], rows, width);
}

function listPath(connector: string, { before, ...flags }: SelectionFlags): string {
  const query = { limit: "1", ...tableOf(flags), ...(before === undefined ? {} : { before }) };
  return `${parkedPath(connector)}?${new URLSearchParams(query)}`;
}

function selectionOf(flags: SelectionFlags): ParkedSelection {
  const { before } = flags;
  return { ...tableOf(flags), ...(before === undefined ? {} : { before }) };
}

function tableOf({ table }: { readonly table?: string }): { schema?: string; table?: string } {
  const { schema, name } = table === undefined ? {} : parseTableName(table);
  return {
    ...(schema === undefined ? {} : { schema }),
    ...(name === undefined ? {} : { table: name }),
  };
}

function counted(messages: number): string {
  return messages === 1 ? "1 message" : `${messages.toLocaleString("en-US")} messages`;
}

function parkedPath(connector: string): string {
  return `${connectorPath(connector)}/parked`;
}

function idPath(id: string): string {
  if (id === "" || id === "." || id === "..") throw new CommandFailure(`"${id}" is no message's id.`);
  return encodeURIComponent(id);
}
