// The `explain` command: what became of a row.

import type { ExplainedDelivery, Explanation } from "../connector/explanation.ts";
import { connectorPath } from "./apply-connectors.ts";
import { CommandFailure } from "./service-client.ts";
import { parseTableName } from "./text/table-name.ts";
import { type CommandContext, printJson } from "./text/terminal.ts";
import { oneLine, textTable } from "./text/text-table.ts";

export async function explainRow(
  { client, terminal, json }: CommandContext,
  connector: string,
  table: string,
  key: string,
): Promise<void> {
  const { schema, name } = parseTableName(table);
  if (!key.trimStart().startsWith("{"))
    throw new CommandFailure(`The key is a JSON object of the key's columns, as '{"id":7}'.`);
  const query = new URLSearchParams({ schema, table: name, key });
  const { body } = await client.call<Explanation>("GET", `${connectorPath(connector)}/explain?${query}`);
  if (json) return printJson(terminal, body);
  for (const line of explanationLines(body, terminal.width)) terminal.print(line);
}

/** Pure. */
export function explanationLines(explanation: Explanation, width: number): readonly string[] {
  const { schema, name, key, state, summary, deliveries, open, parked, receipts } = explanation;
  const lines = [
    oneLine(`${schema}.${name} ${JSON.stringify(key)}: ${state.toUpperCase()}`),
    oneLine(summary),
  ];
  for (const { state: how, idempotency_key: id, attempts, last_at: at } of open ?? [])
    lines.push(oneLine(`now: ${how.toLowerCase()} ${id ?? ""}${at ? `, attempt ${attempts} at ${at}` : ""}`));
  if (parked.length > 0) lines.push(oneLine(`parked: ${parked.join(" ")}`));
  if (open === null && receipts.hours > 0)
    lines.push("What is on its way is not known here: the connector does not run, or on another replica.");
  if (deliveries.length > 0) lines.push(deliveryTable(deliveries, width));
  if (receipts.since !== null) lines.push(`Receipts go back to ${receipts.since}.`);
  return lines;
}

function deliveryTable(deliveries: readonly ExplainedDelivery[], width: number): string {
  const areMessages = deliveries.some(({ kafka }) => kafka !== undefined);
  const rows = deliveries.map(
    ({ at, outcome, kafka, status, ms, attempts, change, idempotency_key: key }) => [
      at,
      outcome,
      areMessages ? messagePlace(kafka) : String(status ?? ""),
      attempts === 0 ? "" : `${ms}`,
      String(attempts),
      change === null ? "" : `${change.op} ${change.lsn}`.trim(),
      key ?? "",
    ],
  );
  const answer = areMessages ? "MESSAGE" : "STATUS";
  return textTable(["AT", "OUTCOME", answer, "MS", "ATTEMPTS", "CHANGE", "IDEMPOTENCY KEY"], rows, width);
}

function messagePlace(kafka: ExplainedDelivery["kafka"]): string {
  return kafka ? `${kafka.topic}[${kafka.partition}]@${kafka.offset ?? "?"}` : "";
}
