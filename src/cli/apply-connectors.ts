// Creates or replaces the connectors of a file. It checks all of them first, so that a file with a mistake changes
// nothing.

import type { GivenConnector } from "../connector/connector.ts";
import { isConnectorId } from "../connector/connector-id.ts";
import type { FileConnector } from "./connector-file.ts";
import { CommandFailure, type ServiceClient } from "./service-client.ts";

export interface ApplyEvents {
  readonly applied: (id: string, outcome: "created" | "replaced") => void;
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
  const stored = await storedIds(client);
  const refused: string[] = [];
  for (const connector of connectors) {
    await check(client, connector, stored).catch((error: unknown) => {
      if (!isRefusal(error)) throw error;
      refused.push(`${connector.id}: ${error.message}`);
    });
  }
  if (refused.length > 0) throw new CommandFailure(refused.join("\n"));
  for (const { id, body } of connectors) {
    try {
      const { status } = await client.call("POST", connectorPath(id), body);
      applied(id, status === 201 ? "created" : "replaced");
    } catch (error) {
      if (!isRefusal(error)) throw error;
      failed(id, error);
    }
  }
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
