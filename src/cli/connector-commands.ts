// The `connectors` commands. Each prints its outcome, or throws CommandFailure.

import type { GivenConnector } from "../connector/connector.ts";
import { dropsAtSource } from "../connector/connector-id.ts";
import type { ConnectorStatus } from "../connector/status.ts";
import { allConnectors, applyConnectors, connectorPath, named, requireId } from "./apply-connectors.ts";
import type { FileConnector } from "./connector-file.ts";
import { CommandFailure, type ServiceClient } from "./service-client.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";
import { oneLine, textTable } from "./text/text-table.ts";

const deletionMs = 60_000;
const pollMs = 200;

export async function listConnectors({ client, terminal, json }: CommandContext): Promise<void> {
  const connectors = await allConnectors(client);
  if (json) return printJson(terminal, { connectors });
  if (connectors.length === 0) return terminal.print("There are no connectors.");
  const rows = connectors.map(({ connector, status }) => [
    connector.id,
    `${kindOf(connector.source)} -> ${kindOf(connector.sink)}`,
    phaseOf(status),
    healthOf(status),
    numberOf(status.progress?.rows_durable),
    lagOf(status),
    reasonOf(status),
  ]);
  terminal.print(
    textTable(["ID", "FROM -> TO", "PHASE", "HEALTH", "CHANGES", "LAG", "REASON"], rows, terminal.width),
  );
}

export async function getConnector({ client, terminal, json }: CommandContext, id: string): Promise<void> {
  const { body } = await client.call<GivenConnector>("GET", connectorPath(id));
  if (json) return printJson(terminal, body);
  const { connector, status } = body;
  const { snapshot } = status.progress ?? {};
  const copied =
    snapshot && `${numberOf(snapshot.rows)} rows, ${snapshot.tables_done} of ${snapshot.tables} tables`;
  const lines: readonly (readonly [string, string | undefined])[] = [
    ["id", connector.id],
    ["name", connector.name ?? undefined],
    ["from", kindOf(connector.source)],
    ["to", kindOf(connector.sink)],
    ["phase", phaseOf(status)],
    ["health", healthOf(status)],
    ["reason", reasonOf(status) || undefined],
    ["copied", copied],
    ["changes", numberOf(status.progress?.rows_durable) || undefined],
    ["lag", lagOf(status) || undefined],
    ["run", body.run_id],
    ["created", body.created_at],
  ];
  const shown = lines.filter((line): line is [string, string] => line[1] !== undefined);
  terminal.print(shown.map(([name, value]) => `${name.padEnd(8)} ${oneLine(value)}`).join("\n"));
}

export async function applyFile(
  { client, terminal, json }: CommandContext,
  connectors: readonly FileConnector[],
): Promise<void> {
  const outcomes: { id: string; outcome: string; reason?: string }[] = [];
  const failures: string[] = [];
  await applyConnectors(client, connectors, {
    applied: (id, outcome) => {
      outcomes.push({ id, outcome });
      if (!json) terminal.print(`${id}: ${outcome}`);
    },
    failed: (id, failure) => {
      outcomes.push({ id, outcome: "failed", reason: failure.message });
      failures.push(named(id, failure));
    },
  });
  if (json) printJson(terminal, outcomes);
  if (failures.length > 0) throw new CommandFailure(failures.join("\n"));
}

/** Returns when the connector is gone. `force`: does not wait for a source that is unreachable. */
export async function deleteConnector(context: CommandContext, id: string, force: boolean): Promise<void> {
  const { client } = context;
  if (force) await command(client, id, "ForceDelete");
  else await client.call("DELETE", connectorPath(id));
  const deadline = performance.now() + deletionMs;
  while (await client.finds(connectorPath(id))) {
    if (performance.now() > deadline) {
      throw new CommandFailure(
        `${id} is being deleted, and is still there: its source may be out of reach (millrace connectors get ${id}). ` +
          "--force does not wait for that.",
      );
    }
    await Bun.sleep(pollMs);
  }
  printOutcome(context, id, "deleted");
  if (force) warnOfLeftovers(context, id);
}

/** Nobody can tell whether the source was reached: the log of the service does. */
function warnOfLeftovers({ terminal }: CommandContext, id: string): void {
  terminal.warn(
    "If its source could not be reached, its slot is still there, and makes the source keep its log until the disk is full. Run there:",
  );
  for (const sql of dropsAtSource(id)) terminal.warn(`  ${sql};`);
}

const outcomes = {
  Start: "started",
  Stop: "stopped",
  Restart: "restarted",
  Resume: "goes on, and compares its tables with the source",
  ReInitialize: "copies everything anew",
} as const;
export type ConnectorAction = keyof typeof outcomes;

export async function commandConnector(
  context: CommandContext,
  id: string,
  what: ConnectorAction,
): Promise<void> {
  const before = what === "Start" ? await readConnector(context.client, id) : null;
  await command(context.client, id, what);
  const after = await readConnector(context.client, id);
  if (what !== "Stop" && after.connector.disabled === true) {
    throw new CommandFailure(
      `${id} is disabled, and runs when it no longer is: "disabled": false in its file and millrace connectors apply, ` +
        `or PATCH /api/v1/${connectorPath(id)} with {"disabled": false}.`,
    );
  }
  const ran = before !== null && before.run_id === after.run_id;
  printOutcome(
    context,
    id,
    ran ? "runs already; millrace connectors restart begins its run anew" : outcomes[what],
  );
}

async function command(client: ServiceClient, id: string, what: string): Promise<void> {
  requireId(id);
  await client.call("POST", `connector/command/${id}`, { command: what });
}

async function readConnector(client: ServiceClient, id: string): Promise<GivenConnector> {
  requireId(id);
  return (await client.call<GivenConnector>("GET", connectorPath(id))).body;
}

function printOutcome({ terminal, json }: CommandContext, id: string, outcome: string): void {
  if (json) printJson(terminal, { id, outcome });
  else terminal.print(`${id}: ${outcome}`);
}

const kindOf = (side: object) => Object.keys(side)[0] ?? "";
const phaseOf = ({ state }: ConnectorStatus) => Object.keys(state)[0] ?? "";
const numberOf = (value: number | undefined) => value?.toLocaleString("en-US") ?? "";

function healthOf({ status }: ConnectorStatus): string {
  const health = Object.keys(status)[0] ?? "";
  // Both mean that nothing is wrong.
  return health === "start" || health === "heartbeat" ? "ok" : health;
}

function reasonOf({ status }: ConnectorStatus): string {
  const { warning, retry, failed, skipped } = status;
  return (warning ?? retry ?? failed ?? skipped)?.reason ?? "";
}

function lagOf({ progress }: ConnectorStatus): string {
  if (!progress) return "";
  const { lag_bytes: bytes, lag_seconds: seconds } = progress;
  return `${numberOf(bytes)} B${seconds === null ? "" : `, ${seconds.toFixed(1)} s`}`;
}
