// Creates or replaces the connectors of a file. It checks all of them first, so that a file with a mistake changes
// nothing.

import type { GivenConnector } from "../connector/connector.ts";
import { isConnectorId } from "../connector/connector-id.ts";
import type { FileConnector } from "./connector-file.ts";
import { CommandFailure, type ServiceClient } from "./service-client.ts";

/** `unchanged`: it was so already, and goes on undisturbed. */
export type ApplyOutcome = "created" | "replaced" | "unchanged";

export interface ApplyEvents {
  readonly applied: (id: string, outcome: ApplyOutcome) => void;
  /** The connector is valid, but could not be stored now. If this throws, applying ends. */
  readonly failed: (id: string, failure: CommandFailure) => void;
}

/**
 * Applies in file order. Throws CommandFailure with everything that the service refuses, before it changes anything.
 */
export async function applyConnectors(
  client: ServiceClient,
  connectors: readonly FileConnector[],
  { applied, failed }: ApplyEvents,
): Promise<void> {
  const runs = new Map((await allConnectors(client)).map((each) => [each.connector.id, each.run_id]));
  const stored = new Set(runs.keys());
  const refused: string[] = [];
  for (const connector of connectors) {
    await check(client, connector, stored).catch((error: unknown) => {
      if (!isRefusal(error)) throw error;
      refused.push(named(connector.id, error));
    });
  }
  if (refused.length > 0) throw new CommandFailure(refused.join("\n"));
  for (const { id, body } of connectors) {
    try {
      const { status } = await client.call("POST", connectorPath(id), body);
      applied(id, status === 201 ? "created" : await replacement(client, id, runs.get(id)));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      failed(id, error);
    }
  }
}

/** What is wrong with a connector, which each line names. */
export function named(id: string, { message }: CommandFailure): string {
  return message.replaceAll(/^/gm, `${id}: `);
}

/** A connector that changes begins a new run. `before`: the run that it had. */
async function replacement(
  client: ServiceClient,
  id: string,
  before: string | undefined,
): Promise<ApplyOutcome> {
  const { body } = await client.call<GivenConnector>("GET", connectorPath(id));
  return body.run_id === before ? "unchanged" : "replaced";
}

export async function storedIds(client: ServiceClient): Promise<ReadonlySet<string>> {
  return new Set((await allConnectors(client)).map(({ connector }) => connector.id));
}

export async function allConnectors(client: ServiceClient): Promise<readonly GivenConnector[]> {
  const { body } = await client.call<{ connectors?: GivenConnector[] } | null>("GET", "connectors");
  if (Array.isArray(body?.connectors)) return body.connectors;
  throw new CommandFailure("The answer is none of this service's.");
}

/** Secrets that are left out come from the stored connector of this id, if there is one. */
export function secretsQuery(id: string, stored: ReadonlySet<string>): string {
  return stored.has(id) ? `?connector_id=${encodeURIComponent(id)}` : "";
}

/** Throws CommandFailure when the id is invalid. */
export function connectorPath(id: string): string {
  requireId(id);
  return `connectors/${id}`;
}

export function requireId(id: string): void {
  if (isConnectorId(id)) return;
  throw new CommandFailure(`"${id}" is no connector's id: up to 30 letters, digits, - and _.`);
}

function isRefusal(error: unknown): error is CommandFailure {
  return error instanceof CommandFailure && error.exitCode === 1;
}

async function check(
  client: ServiceClient,
  { id, body }: FileConnector,
  stored: ReadonlySet<string>,
): Promise<void> {
  requireId(id);
  await client.call("POST", `debug/connector${secretsQuery(id, stored)}`, body);
}
