// Answers what became of a row: from receipts, from what is parked, and from the run that sends it, where that is on this replica.

import type { ConnectorService, ExplainService } from "../../api/services.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import type { ExplainedDelivery, ExplainRequest, Explanation } from "../../connector/explanation.ts";
import type { KeyedParked } from "../../connector/parked-message.ts";
import { batchSpanMs, type ReceiptTable, type RowQuestion } from "../../connector/receipts.ts";
import { invalidRequest } from "../../errors/invalid-input.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { textsDigest } from "../../sink/delivery/receipts/key-digest.ts";
import { filterKey, filterProbes, tableHash } from "../../sink/delivery/receipts/key-filter.ts";
import { keyTexts } from "../../sink/delivery/receipts/key-texts.ts";
import type { State } from "../../state/open-state.ts";
import type { Statuses } from "../status/statuses.ts";
import type { Supervisor } from "../supervisor.ts";
import { conclude } from "./conclusion.ts";
import { rowReceipts } from "./row-receipts.ts";

export interface ExplainContext {
  readonly state: Pick<State, "connectors" | "receipts" | "parked">;
  /** Has the runs of this replica. */
  readonly supervisor: Pick<Supervisor, "findRow" | "holds">;
  /** Tells which replica has the others. */
  readonly statuses: Pick<Statuses, "status">;
  readonly connectors: Pick<ConnectorService, "tables">;
  readonly nowMs: () => number;
}

const mostDeliveries = 100;
/** Batches that are in memory at once: one has half a MB at most. */
const batchesAtOnce = 20;
const hourMs = 3_600_000;

export class StoredExplainService implements ExplainService {
  constructor(private readonly context: ExplainContext) {}

  async explain(connectorId: string, request: ExplainRequest): Promise<Explanation> {
    const { state, supervisor, statuses } = this.context;
    const { config, runId, stopped } = await state.connectors.get(connectorId);
    if (config.sink.postgres) throw noReceipts();
    const { receipts_hours: hours } = config.limits;
    const tables = hours === 0 ? null : await state.receipts.tables(connectorId);
    const key = tables ? textsOf(request, tables) : null;
    if (!tables) await this.#requireCarried(connectorId, request);
    const question = key && { schema: request.schema, name: request.name, key };
    const [receipts, kept, open, oldestMs] = await Promise.all([
      question ? this.#receipts(connectorId, question, config) : [],
      state.parked.ofKey(connectorId, request, key && textsDigest(key).hash),
      question ? supervisor.findRow(connectorId, question) : null,
      state.receipts.oldestMs(connectorId),
    ]);
    const deliveries = [...receipts, ...kept.flatMap(discarded)]
      .toSorted((a, b) => b.at.localeCompare(a.at))
      .slice(0, mostDeliveries);
    const isElsewhere = key !== null && !stopped && !supervisor.holds(connectorId);
    const elsewhere = isElsewhere ? statuses.status({ id: connectorId, runId }).replica : undefined;
    const held = kept.filter(({ isDiscarded }) => !isDiscarded);
    return {
      schema: request.schema,
      name: request.name,
      key: request.key,
      ...conclude({ deliveries, parked: held, open, elsewhere, hours }),
      ...({ parked: held.map(({ id }) => id), deliveries, open: open && [...open] } as Pick<
        Explanation,
        "parked" | "deliveries" | "open"
      >),
      receipts: { hours, since: knownSince(oldestMs, hours, this.context.nowMs()) },
    };
  }

  /** The newest first. */
  async #receipts(
    connectorId: string,
    question: RowQuestion,
    { limits, sink }: ConnectorConfig,
  ): Promise<readonly ExplainedDelivery[]> {
    const { hash } = textsDigest(question.key);
    const probes = filterProbes(filterKey(tableHash(question.schema, question.name), hash));
    const sinceMs = this.context.nowMs() - limits.receipts_hours * hourMs;
    const options = { sinceMs, hasMessageKeys: sink.kafka?.format.debezium === undefined };
    const found: ExplainedDelivery[] = [];
    for (let before: string | null = null; found.length < mostDeliveries; ) {
      const search = { probes, sinceMs: sinceMs - batchSpanMs, before, limit: batchesAtOnce };
      const batches = await this.context.state.receipts.search(connectorId, search);
      for (const batch of batches) {
        if (found.length >= mostDeliveries) break;
        found.push(...rowReceipts(batch.body, question, options).slice(-mostDeliveries).toReversed());
      }
      if (batches.length < batchesAtOnce) break;
      before = batches.at(-1)!.id;
    }
    return found;
  }

  /** Without receipts the run's report says what there is. */
  async #requireCarried(connectorId: string, { schema, name }: ExplainRequest): Promise<void> {
    const tables = await this.context.connectors.tables(connectorId);
    const isCarried = tables.some(
      (table) => table.schema === schema && table.name === name && table.state !== "Excluded",
    );
    if (tables.length > 0 && !isCarried) throw notCarried(schema, name);
  }
}

/** Throws `invalid_request`. */
function textsOf({ schema, name, key }: ExplainRequest, tables: readonly ReceiptTable[]): readonly string[] {
  const table = tables.find((each) => each.schema === schema && each.name === name);
  if (!table) throw notCarried(schema, name);
  if (table.key.length === 0) {
    const message = "the table has no key: nothing tells which of its rows a request had";
    throw invalidRequest([{ path: "/table", message }]);
  }
  const read = keyTexts(table.key, key);
  if (read.kind === "unfit") throw invalidRequest([...read.violations]);
  return read.texts;
}

function discarded({
  id,
  isDiscarded,
  endedAt,
  attempts,
  change,
}: KeyedParked): readonly ExplainedDelivery[] {
  if (!isDiscarded || endedAt === null) return [];
  const [first] = attempts;
  const last = attempts.at(-1);
  return [
    {
      idempotency_key: id,
      at: endedAt,
      status: last?.status ?? null,
      ms: 0,
      outcome: "discarded",
      attempts: attempts.length,
      first_at: first?.at ?? endedAt,
      change,
    },
  ];
}

/** Older ones may be there, of a setting before, or until a run removes them. Nobody is told of those. */
function knownSince(oldestMs: number | null, hours: number, nowMs: number): string | null {
  if (oldestMs === null || hours === 0) return null;
  return new Date(Math.max(oldestMs, nowMs - hours * hourMs)).toISOString();
}

function notCarried(schema: string, name: string): MillraceError {
  return invalidRequest([
    { path: "/table", message: `the connector does not carry a table ${name} in schema ${schema}` },
  ]);
}

function noReceipts(): MillraceError {
  const text =
    "A Postgres sink sends no requests that could be explained: look at the row in its table. history_enabled keeps what it was.";
  return new MillraceError("unsupported_kind", text);
}
