// Where the tables of each connector stand, as its runs reported them last. What an attempt counts is added to what the run's earlier attempts
// counted.

import type { TableStatus } from "../../connector/table-status.ts";
import type { RefusedTable } from "../../errors/millrace-error.ts";
import type { TableReport, TablesReport } from "../../pipeline/table-states.ts";

interface Known {
  readonly report: TableReport;
  /** What the run's earlier attempts counted. */
  readonly before: Pick<TableReport, "rowsIn" | "lastChangeMs">;
}

interface Entry {
  readonly runId: string;
  /** By OID. */
  readonly tables: Map<number, Known>;
  /** Rises with each report, over all connectors. */
  revision: number;
}

/** A table whose rows the sink refused last, and why: the connector stands there. */
interface Refused {
  readonly runId: string;
  readonly table: RefusedTable;
  readonly reason: string;
}

const nothing: Known["before"] = { rowsIn: 0, lastChangeMs: null };

export class TableBoard {
  readonly #entries = new Map<string, Entry>();
  readonly #refused = new Map<string, Refused>();
  #revision = 0;

  /** A first report of an attempt replaces what is known. The others change it. */
  reported(connectorId: string, runId: string, { isFirst, tables, gone }: TablesReport): void {
    const entry = this.#entries.get(connectorId);
    const ofRun = entry?.runId === runId ? entry.tables : null;
    if (isFirst) {
      const before = (id: number) => totalOf(ofRun?.get(id));
      const known = tables.map((report) => [report.id, { report, before: before(report.id) }] as const);
      this.#entries.set(connectorId, { runId, tables: new Map(known), revision: ++this.#revision });
      return;
    }
    // A late report of an earlier run.
    if (!entry || ofRun === null) return;
    entry.revision = ++this.#revision;
    for (const id of gone) ofRun.delete(id);
    for (const report of tables)
      ofRun.set(report.id, { report, before: ofRun.get(report.id)?.before ?? nothing });
  }

  /** The connector's last attempt ended because of this table's rows; null: of something else, or it goes on. */
  refused(connectorId: string, runId: string, table: RefusedTable | null, reason = ""): void {
    if (table === null && !this.#refused.has(connectorId)) return;
    if (table === null) this.#refused.delete(connectorId);
    else this.#refused.set(connectorId, { runId, table, reason });
    const entry = this.#entries.get(connectorId);
    if (entry) entry.revision = ++this.#revision;
  }

  /** By schema and name. Another run than the one that reported has counted nothing yet. */
  list(connectorId: string, runId: string): TableStatus[] {
    const entry = this.#entries.get(connectorId);
    const isOfRun = entry?.runId === runId;
    const known = [...(entry?.tables.values() ?? [])];
    const refused = this.#refused.get(connectorId);
    const shown = (report: TableReport) => (refused?.runId === runId ? withRefusal(report, refused) : report);
    return known
      .map(({ report, before }) => statusOf(shown(report), isOfRun ? totalOf({ report, before }) : nothing))
      .sort(bySchemaAndName);
  }

  /** Another one whenever the connector's tables have changed; null: nothing is known of them. */
  revision(connectorId: string): number | null {
    return this.#entries.get(connectorId)?.revision ?? null;
  }

  forget(connectorId: string): void {
    this.#entries.delete(connectorId);
    this.#refused.delete(connectorId);
  }
}

/** A table that is set aside holds up nobody, so its own state says more. */
function withRefusal(report: TableReport, { table, reason }: Refused): TableReport {
  const isIt = report.schema === table.schema && report.name === table.name;
  const isTaken = ["Waiting", "Copying", "Resuming", "Streaming"].includes(report.state);
  if (!isIt || !isTaken) return report;
  const commands = table.commands.map((command) => `${command};`);
  return { ...report, state: "Waiting", copy: null, reason, commands };
}

function totalOf(known: Known | undefined): Known["before"] {
  if (!known) return nothing;
  const { report, before } = known;
  return {
    rowsIn: before.rowsIn + report.rowsIn,
    lastChangeMs: report.lastChangeMs ?? before.lastChangeMs,
  };
}

/** In the API's form. */
function statusOf(
  { schema, name, state, reason, commands, isCopiedAgain, copy, compared, history }: TableReport,
  { rowsIn, lastChangeMs }: Known["before"],
): TableStatus {
  return {
    schema,
    name,
    state,
    ...(reason === null ? {} : { reason }),
    ...(commands.length === 0 ? {} : { commands: [...commands] }),
    ...(isCopiedAgain ? { copied_again: true } : {}),
    ...(copy ? { copy: copyOf(copy) } : {}),
    ...(compared && { compared: { rows: compared.rows, estimated_rows: compared.estimatedRows } }),
    rows_in: rowsIn,
    ...(lastChangeMs === null ? {} : { last_change_at: new Date(lastChangeMs).toISOString() }),
    history,
  };
}

function copyOf({
  rows,
  bytes,
  estimatedRows,
  phase,
}: NonNullable<TableReport["copy"]>): NonNullable<TableStatus["copy"]> {
  const written = phase?.rowsWritten ?? null;
  return {
    rows,
    bytes,
    estimated_rows: estimatedRows,
    phase: phase?.name ?? "Reading",
    ...(written !== null && { rows_written: written }),
  };
}

function bySchemaAndName(a: TableStatus, b: TableStatus): number {
  if (a.schema !== b.schema) return a.schema < b.schema ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}
