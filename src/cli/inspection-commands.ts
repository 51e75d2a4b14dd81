// The `validate` and `catalog` commands: the service inspects sources and sinks, and stores nothing.

import type { Catalog, CatalogColumn } from "../connector/config/catalog.ts";
import type { GivenConnector } from "../connector/connector.ts";
import type { ValidateEvent, ValidateTest } from "../connector/validation.ts";
import { connectorPath, secretsQuery, storedIds } from "./apply-connectors.ts";
import type { FileConnector } from "./connector-file.ts";
import { CommandFailure, type ServiceClient } from "./service-client.ts";
import { type CommandContext, printJson, type Terminal } from "./text/terminal.ts";
import { oneLine, textTable } from "./text/text-table.ts";

type Side = "source" | "sink";

/** The stored connector. Its secrets are redacted; the service knows them. */
export async function storedConnector(client: ServiceClient, id: string): Promise<FileConnector> {
  const { body } = await client.call<GivenConnector>("GET", connectorPath(id));
  return { id, body: { ...body.connector } };
}

/** Checks each connector's source and sink. Throws when a check has failed. */
export async function validateConnectors(
  { client, terminal, json }: CommandContext,
  connectors: readonly FileConnector[],
): Promise<void> {
  const stored = await storedIds(client);
  const found: { id: string; source: readonly ValidateEvent[]; sink: readonly ValidateEvent[] }[] = [];
  let failed = 0;
  for (const connector of connectors) {
    const check = async (side: Side) => {
      const events = await validate(client, connector, side, stored);
      if (!json) printChecks(terminal, `${connector.id}, ${side}`, events);
      failed += events.filter((event) => event.failed !== undefined).length;
      return events;
    };
    found.push({ id: connector.id, source: await check("source"), sink: await check("sink") });
  }
  if (json) printJson(terminal, found);
  if (failed > 0)
    throw new CommandFailure(
      failed === 1 ? "A side failed its checks." : `${failed} sides failed their checks.`,
    );
}

/** Shows the tables of the connector's source. */
export async function showCatalog(
  { client, terminal, json }: CommandContext,
  { id, body }: FileConnector,
): Promise<void> {
  const path = `catalog/source${secretsQuery(id, await storedIds(client))}`;
  const catalog = (await client.call<Catalog>("POST", path, { source: body.source })).body;
  if (json) return printJson(terminal, catalog);
  const rows = catalog.schemas.flatMap((schema) =>
    schema.tables.map(({ name, columns }) => [
      `${schema.name}.${name}`,
      columns
        .filter((column) => column.primary_key)
        .map((column) => column.name)
        .join(", "),
      columns.map(columnText).join(", "),
    ]),
  );
  if (rows.length === 0)
    return terminal.print(`There are no tables in ${catalog.name} that the role may see.`);
  terminal.print(textTable(["TABLE", "KEY", "COLUMNS"], rows, terminal.width));
}

async function validate(
  client: ServiceClient,
  { id, body }: FileConnector,
  side: Side,
  stored: ReadonlySet<string>,
): Promise<readonly ValidateEvent[]> {
  const path = `validate/${side}${secretsQuery(id, stored)}`;
  return (await client.call<ValidateEvent[]>("POST", path, { [side]: body[side] })).body;
}

function printChecks(terminal: Terminal, title: string, events: readonly ValidateEvent[]): void {
  terminal.print(title);
  for (const { test } of events) if (test) terminal.print(checkLines(test).join("\n"));
}

function checkLines({ test_type: type, status, message, commands = [] }: ValidateTest): readonly string[] {
  const [kind = "", facts] = Object.entries(type)[0] ?? [];
  const detail = Object.values(facts ?? {})[0];
  const what = typeof detail === "string" ? `${kind}: ${detail}` : kind;
  const outcome = Object.keys(status)[0] ?? "";
  const detailText = status.Failed?.reason ?? message ?? status.Skipped?.reason;
  return [
    oneLine(`  ${outcome.padEnd(7)}  ${what}${detailText === undefined ? "" : `: ${detailText}`}`),
    ...commands.map((sql) => oneLine(`           ${sql}`)),
  ];
}

function columnText({ name, data_type: type, supported }: CatalogColumn): string {
  return `${name} ${type ?? ""}${supported === false ? " (not supported)" : ""}`.trim();
}
