// Receipts in the state: finds the batches that may hold a key, and removes what is too old or too much. They are written with the record of
// their connector's sink, by record-store.ts.

import { type SQL, sql } from "drizzle-orm";
import type { ReceiptCall, ReceiptTable } from "../../connector/receipts.ts";
import type { Term } from "../../connector/term.ts";
import { type Database, rowsOf, stored } from "../database.ts";
import { leases } from "../replica-tables.ts";
import { receipts, receiptTables } from "../schema.ts";
import { type Fence, fenced } from "./fence.ts";
import { OpenWrites } from "./open-writes.ts";
import { removeInPieces } from "./piecewise-removal.ts";
import type { RecordStore } from "./record-store.ts";

export interface FoundBatch {
  readonly id: string;
  readonly body: Uint8Array;
}

export interface BatchSearch {
  /** Numbers of 32 bits, as a filter of the batches takes them. */
  readonly probes: readonly number[];
  readonly sinceMs: number;
  /** Batches before this one; null: from the newest on. */
  readonly before: string | null;
  readonly limit: number;
}

/** Of an index entry, and of what else a row has. */
const rowBytes = 150;

export class ReceiptStore {
  readonly #writes = new OpenWrites();

  constructor(
    private readonly database: Database,
    /** Saves receipts. */
    private readonly records: Pick<RecordStore, "saved">,
  ) {}

  /**
   * Stores the tables, or removes receipts. To store, or to remove all, waits for what was asked for before, and for saves under way: these may
   * be of a run that has ended. Throws `lease_lost`, `state_unavailable`.
   */
  async answer(connectorId: string, call: ReceiptCall, term: Term): Promise<void> {
    const fence = { connectorId, term };
    // What is too old, or too much, are the earliest receipts: it takes none of the next run.
    if (call.kind === "prune" && call.maxAgeMs > 0) await stored(prune(this.database, fence, call));
    else await this.#writes.add(connectorId, this.#inTurn(fence, call));
  }

  async #inTurn(fence: Fence, call: ReceiptCall): Promise<void> {
    const { connectorId } = fence;
    await Promise.all([this.#writes.ended(connectorId), this.records.saved(connectorId)]);
    if (call.kind === "prune") await stored(prune(this.database, fence, call));
    else
      await stored(fenced(this.database, fence, (database) => putTables(database, connectorId, call.tables)));
  }

  /** The connector begins again. Throws `lease_lost`. */
  async remove(connectorId: string, term: Term): Promise<void> {
    await this.answer(connectorId, { kind: "prune", maxAgeMs: 0, maxBytes: 0 }, term);
  }

  /** The tables that its last run with receipts carried; null: there was none. */
  async tables(connectorId: string): Promise<readonly ReceiptTable[] | null> {
    const [row] = await stored(
      rowsOf<{ tables: string }>(
        this.database,
        sql`select tables::text as tables from ${receiptTables} where connector_id = ${connectorId}`,
      ),
    );
    return row ? (JSON.parse(row.tables) as ReceiptTable[]) : null;
  }

  /** Batches that may hold the key, the newest first. */
  async search(
    connectorId: string,
    { probes, sinceMs, before, limit }: BatchSearch,
  ): Promise<readonly FoundBatch[]> {
    const mayHold = sql.join(
      probes.map(
        (probe) => sql`and get_bit(filter, (${probe}::bigint * (octet_length(filter) * 8)) >> 32) = 1`,
      ),
      sql` `,
    );
    // The filters decide which bodies are read.
    const rows = await stored(
      rowsOf<{ id: string; body: string }>(
        this.database,
        sql`select id::text as id, encode(body, 'base64') as body from ${receipts}
          where connector_id = ${connectorId} and began_at >= ${new Date(sinceMs).toISOString()}::timestamptz
          ${before === null ? sql`` : sql`and id < ${before}::uuid`} ${mayHold}
          order by ${receipts.id} desc limit ${limit}::int`,
      ),
    );
    return rows.map(({ id, body }) => ({ id, body: new Uint8Array(Buffer.from(body, "base64")) }));
  }

  /** Since when there are receipts; null: there are none. */
  async oldestMs(connectorId: string): Promise<number | null> {
    const [row] = await stored(
      rowsOf<{ at: number | null }>(
        this.database,
        sql`select (extract(epoch from min(began_at)) * 1000)::float8 as at from ${receipts} where connector_id = ${connectorId}`,
      ),
    );
    return row?.at ?? null;
  }

  /** Bytes by connector: of those that this instance holds; null: of all. */
  async totals(holder: string | null): Promise<ReadonlyMap<string, number>> {
    const ofHolder = sql`where connector_id in (select connector_id from ${leases} where holder = ${holder}::uuid)`;
    const rows = await stored(
      rowsOf<{ id: string; bytes: number }>(
        this.database,
        sql`select connector_id as id, sum(octet_length(body) + octet_length(filter) + ${rowBytes}::int)::float8 as bytes
          from ${receipts} ${holder === null ? sql`` : ofHolder} group by connector_id`,
      ),
    );
    return new Map(rows.map(({ id, bytes }) => [id, bytes]));
  }
}

/**
 * SQL: discards from before this time may be forgotten, as no receipt that is left says that their messages are parked. Null: there are no
 * receipts. The day is for an attempt that was under way at the discard, and was refused after it.
 */
export function receiptsSince(connectorId: string): SQL {
  return sql`(select began_at - interval '1 day' from ${receipts} where connector_id = ${connectorId} order by ${receipts.id} limit 1)`;
}

async function putTables(
  database: Database,
  connectorId: string,
  tables: readonly ReceiptTable[],
): Promise<void> {
  const values = { connectorId, tables };
  await database
    .insert(receiptTables)
    .values(values)
    .onConflictDoUpdate({ target: receiptTables.connectorId, set: { tables } });
}

/** By the server's clock, less what its clock and the run's may differ by: nothing goes too early for `explain`, which looks at times too. */
async function prune(
  database: Database,
  fence: Fence,
  { maxAgeMs, maxBytes }: Extract<ReceiptCall, { kind: "prune" }>,
): Promise<void> {
  const { connectorId } = fence;
  if (maxAgeMs === 0) {
    await removeInPieces(database, fence, "receipts");
    await fenced(database, fence, (within) =>
      within.execute(sql`delete from ${receiptTables} where connector_id = ${connectorId}`),
    );
    return;
  }
  const isOld = sql`began_at < clock_timestamp() - ${maxAgeMs}::float8 * interval '1 millisecond'`;
  await removeInPieces(database, fence, "receipts", isOld);
  const [newest] = await rowsOf<{ id: string }>(
    database,
    sql`select id::text as id from (
      select id, sum(octet_length(body) + octet_length(filter) + ${rowBytes}::int)
        over (order by id desc) as bytes
      from ${receipts} where connector_id = ${connectorId}
    ) as counted where bytes > ${maxBytes}::bigint order by counted.id desc limit 1`,
  );
  if (newest) await removeInPieces(database, fence, "receipts", sql`id <= ${newest.id}::uuid`);
}
