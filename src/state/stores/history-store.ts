// The status records of each connector, oldest first. The newest thousand are kept.

import { and, asc, eq, sql } from "drizzle-orm";
import type { HistoryComponent, HistoryEntry, Status } from "../../connector/status.ts";
import type { Term } from "../../connector/term.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import {
  type Database,
  dataException,
  describeFailure,
  foreignKeyViolation,
  sqlState,
  stored,
} from "../database.ts";
import { statusHistory } from "../schema.ts";
import { heldLease } from "./fence.ts";

export const historyBound = 1_000;
/** Old records are deleted in groups of this size, so that a flapping connector costs one statement per record. */
const trimEvery = 100;

export interface HistoryRecord {
  readonly id: string;
  readonly connectorId: string;
  readonly runId: string;
  readonly component: HistoryComponent;
  readonly status: Status;
  readonly createdAt: Date;
}

/** `term`: of the run that it tells of; undefined: it is not of a run. */
export type FencedRecord = HistoryRecord & { readonly term: Term | undefined };

export class HistoryStore {
  readonly #database: Database;
  readonly #sinceTrim = new Map<string, number>();

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Stores a record. `isRepeated`: only if it is missing, because an earlier attempt may have stored it. A record of a
   * deleted connector is dropped, and so is one of a run whose term is no longer the connector's. Throws `state_unavailable`, and
   * `internal` where the state can never take the record.
   */
  async append({ term, ...record }: FencedRecord, isRepeated = false): Promise<void> {
    try {
      if (isRepeated && (await this.#has(record))) return;
      if (term === undefined || term === null) await this.#database.insert(statusHistory).values(record);
      else await this.#insertHeld(record, term);
    } catch (error) {
      const code = sqlState(error);
      if (code === foreignKeyViolation) return;
      if (code?.startsWith(dataException))
        throw new MillraceError("internal", `The state refuses the record: ${describeFailure(error)}`);
      return stored(Promise.reject(error));
    }
    const count = (this.#sinceTrim.get(record.connectorId) ?? trimEvery) + 1;
    this.#sinceTrim.set(record.connectorId, count > trimEvery ? 0 : count);
    if (count > trimEvery) await this.#trim(record.connectorId);
  }

  async list(connectorId: string): Promise<HistoryEntry[]> {
    const rows = await stored(
      this.#database
        .select()
        .from(statusHistory)
        .where(eq(statusHistory.connectorId, connectorId))
        .orderBy(asc(statusHistory.sequence))
        .execute(),
    );
    return rows.slice(-historyBound).map((row) => ({
      id: row.id,
      connector_id: row.connectorId,
      run_id: row.runId,
      component: row.component,
      status: row.status,
      created_at: row.createdAt.toISOString(),
    }));
  }

  async #insertHeld({ connectorId, ...record }: HistoryRecord, term: number): Promise<void> {
    const { id, runId, component, status, createdAt } = record;
    await this.#database.execute(sql`
      insert into ${statusHistory} (id, connector_id, run_id, component, status, created_at)
      select ${id}::uuid, held.connector_id, ${runId}::uuid, ${component}::text, ${JSON.stringify(status)}::text::jsonb,
        ${createdAt.toISOString()}::timestamptz
      from (${heldLease(connectorId, term)}) as held`);
  }

  async #has({ connectorId, id }: HistoryRecord): Promise<boolean> {
    const isOne = and(eq(statusHistory.connectorId, connectorId), eq(statusHistory.id, id));
    return (
      (await this.#database.select({ id: statusHistory.id }).from(statusHistory).where(isOne)).length > 0
    );
  }

  async #trim(connectorId: string): Promise<void> {
    await stored(
      this.#database.execute(sql`
        delete from ${statusHistory} where connector_id = ${connectorId} and sequence <= (
          select sequence from ${statusHistory} where connector_id = ${connectorId}
          order by sequence desc offset ${historyBound} limit 1)`),
    );
  }
}
