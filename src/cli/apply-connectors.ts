// Connectors of a file are created or replaced: all of them are checked first, so that a file with a mistake changes nothing.

import type { ConnectorWithStatus } from "../connector/connector.ts";
import type { FileConnector } from "./connector-file.ts";
import { CommandFailure, type ServiceClient } from "./service-client.ts";

/** `told` is called for each, in the order of the file. Throws CommandFailure with all that the service refuses. */
export async function applyConnectors(
  client: ServiceClient,
  connectors: readonly FileConnector[],
  told: (id: string, outcome: "created" | "replaced") => void,
): Promise<void> {
  const stored = await storedIds(client);
  const refused: string[] = [];
  for (const { id, body } of connectors) {
    await check(client, id, body, stored).catch((error: unknown) => {
      if (!(error instanceof CommandFailure) || error.exitCode !== 1) throw error;
      refused.push(`${id}: ${error.message}`);
    });
  }
  if (refused.length > 0) throw new CommandFailure(refused.join("\n"));
  for (const { id, body } of connectors) {
    const { status } = await client.ask("POST", connectorPath(id), body);
    told(id, status === 201 ? "created" : "replaced");
  }
}

export async function storedIds(client: ServiceClient): Promise<ReadonlySet<string>> {
  const { body } = await client.ask<{ connectors: ConnectorWithStatus[] }>("GET", "connectors");
  return new Set(body.connectors.map(({ connector }) => connector.id));
}

/** Secrets that are left out come from the connector that is stored, where one is. */
export function filledFrom(id: string, stored: ReadonlySet<string>): string {
  return stored.has(id) ? `?connector_id=${encodeURIComponent(id)}` : "";
}

export function connectorPath(id: string): string {
  return `connectors/${encodeURIComponent(id)}`;
}

async function check(
  client: ServiceClient,
  id: string,
  body: FileConnector["body"],
  stored: ReadonlySet<string>,
): Promise<void> {
  await client.ask("POST", `debug/connector${filledFrom(id, stored)}`, body);
}
