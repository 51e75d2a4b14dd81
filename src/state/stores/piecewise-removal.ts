// Deletes what a connector may have much of, piece by piece. In one statement it could take longer than an answer of the state may:
// that would be ended and rolled back, and never get further. And whoever waits for the lease waits for one piece.

import { type SQL, sql } from "drizzle-orm";
import { type Database, rowsOf } from "../database.ts";
import { parkedMessages, receipts, requestCuts } from "../schema.ts";
import { type Fence, fenced } from "./fence.ts";

/** Rows of a piece. Bodies of receipts are small, and those of parked messages mostly. */
const pieceRows = 1_000;

/** What a connector may have much of. `key`: the rest of the primary key. */
const tables = {
  receipts: { table: receipts, key: sql.raw("id") },
  parkedMessages: { table: parkedMessages, key: sql.raw("id") },
  requestCuts: { table: requestCuts, key: sql.raw("key") },
};

/**
 * In the order of their keys. Each piece is durable by itself, and is written under the term. `where`: which rows; left out: all. Throws
 * `lease_lost`; then some may be gone.
 */
export async function removeInPieces(
  database: Database,
  fence: Fence,
  name: keyof typeof tables,
  where: SQL = sql`true`,
): Promise<void> {
  const { table, key } = tables[name];
  let after: string | null = null;
  do {
    // What is gone would be read again for each piece, as long as somebody's transaction may still see it.
    const isNext = after === null ? where : sql`${where} and ${key} > ${after}::uuid`;
    const remove = sql`with piece as (
        select ${key} as key from ${table} where connector_id = ${fence.connectorId} and ${isNext} order by ${key} limit ${pieceRows}::int
      ), gone as (
        delete from ${table} where connector_id = ${fence.connectorId} and ${key} in (select key from piece)
      ) select piece.key::text as key from piece order by piece.key`;
    const rows: readonly { readonly key: string }[] = await fenced(database, fence, (within) =>
      rowsOf<{ key: string }>(within, remove),
    );
    after = rows.length < pieceRows ? null : rows.at(-1)!.key;
  } while (after !== null);
}
