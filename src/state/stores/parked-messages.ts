// What is parked, for people: lists it in pages, shows one message, has messages sent again, discards them. It needs no run: the run looks
// for what was asked for. run-parking.ts has what a run does.

import { type SQL, sql } from "drizzle-orm";
import type {
  KeyedParked,
  Parked,
  ParkedChoice,
  ParkedList,
  ParkedPageRequest,
  ParkedTotal,
} from "../../connector/parked-message.ts";
import { type Database, rowsOf, stored } from "../database.ts";
import { leases } from "../replica-tables.ts";
import { parkedMessages } from "../schema.ts";
import { listed } from "./parking-statements.ts";

interface Row {
  readonly sequence: string;
  readonly id: string;
  readonly schema: string;
  readonly table: string;
  readonly state: string;
  readonly asked: boolean;
  readonly cause: Parked["cause"];
  readonly keys: string;
  readonly rows: number;
  readonly bytes: number;
  readonly lsn: string | null;
  readonly attempts: string;
  readonly committed: number;
  readonly parked: number;
  readonly ended: number | null;
  readonly by: string | null;
  readonly body?: string | null;
}

/** A message lists no more than so many keys. */
const mostKeysListed = 100;

const ms = (column: string) => sql.raw(`(extract(epoch from ${column}) * 1000)::float8`);

const columns = sql`sequence::text as sequence, id::text as id, schema_name as schema, table_name as table, state,
  asked_at is not null as asked, cause, keys, rows, bytes::float8 as bytes, first_lsn as lsn, attempts::text as attempts,
  ${ms("committed_at")} as committed, ${ms("parked_at")} as parked, ${ms("ended_at")} as ended, ended_by as by`;

export class ParkedMessages {
  constructor(private readonly database: Database) {}

  /** In the order in which they were parked. */
  async list(connectorId: string, request: ParkedPageRequest): Promise<ParkedList> {
    const { after, limit, schema, table, before, isDiscarded } = request;
    const all = sql`from ${parkedMessages}
      where connector_id = ${connectorId} and state = ${isDiscarded ? "discarded" : "parked"}
      ${named("schema_name", schema)} ${named("table_name", table)} ${parkedBefore(before)}`;
    const [count] = await stored(
      rowsOf<{ total: number; asked: number; at: number }>(
        this.database,
        sql`select count(*)::float8 as total, count(asked_at)::float8 as asked, ${ms("statement_timestamp()")} as at ${all}`,
      ),
    );
    const rows = await stored(
      rowsOf<Row>(
        this.database,
        sql`select ${columns} ${all} and sequence > ${after ?? "0"}::bigint
          order by ${parkedMessages.sequence} limit ${limit + 1}::int`,
      ),
    );
    const page = rows.slice(0, limit);
    return {
      parked: page.map(shown),
      next: rows.length > limit ? page.at(-1)!.sequence : null,
      total: count!.total,
      asked: count!.asked,
      as_of: time(count!.at),
    };
  }

  /** Null: it is neither parked nor discarded. `withBody`: also what was sent. */
  async find(connectorId: string, id: string, withBody: boolean): Promise<Parked | null> {
    const [row] = await stored(
      rowsOf<Row>(
        this.database,
        sql`select ${columns}${withBody ? sql`, encode(body, 'base64') as body` : sql``} from ${parkedMessages}
          where connector_id = ${connectorId} and id = ${id}::uuid and state <> 'delivered'`,
      ),
    );
    if (!row) return null;
    if (!row.body) return shown(row);
    const bytes = await Bun.zstdDecompress(Buffer.from(row.body, "base64"));
    return { ...shown(row), body: new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes) };
  }

  /**
   * Messages that have a row, or that it waits behind: first those that are parked, in their order, then those that were discarded, the newest
   * first; at most 1,000. `hash`: `identityHash` of the key, unsigned. It finds the row however its key is written. Null: it is not known.
   * Then keys are compared as texts: 7 and "7" are the same.
   */
  async ofKey(
    connectorId: string,
    { schema, name, key }: { readonly schema: string; readonly name: string; readonly key: object },
    hash: number | null,
  ): Promise<readonly KeyedParked[]> {
    const listsKey = sql`exists (select 1 from json_array_elements(keys::json) as one (key) where not exists (
        select 1 from json_each_text(${JSON.stringify(key)}::json) as asked where one.key ->> asked.key is distinct from asked.value))`;
    // Rows of a table that keeps the order of the stream share the hash 0.
    const mayHaveKey =
      hash === null
        ? listsKey
        : sql`(hashes @> array[${hash | 0}::int] or hashes = array[0] and (${listsKey} or rows > ${mostKeysListed}::int))`;
    const rows = await stored(
      rowsOf<Row>(
        this.database,
        sql`select ${columns} from ${parkedMessages}
          where connector_id = ${connectorId} and schema_name = ${schema} and table_name = ${name}
          and state <> 'delivered' and ${mayHaveKey}
          order by state desc, case state when 'parked' then sequence else -sequence end limit 1000`,
      ),
    );
    return rows.map((row) => ({
      id: row.id,
      isDiscarded: row.state === "discarded",
      endedAt: row.ended === null ? null : time(row.ended),
      attempts: JSON.parse(row.attempts) as KeyedParked["attempts"],
      change: row.lsn === null ? null : { lsn: row.lsn, committed_at: time(row.committed), op: "" },
    }));
  }

  /** Has messages sent again. Returns how many are asked for; those that wait behind them follow. */
  async ask(connectorId: string, choice: ParkedChoice): Promise<number> {
    const ask = this.database.transaction(async (transaction) => {
      const at = await nextTime(transaction, connectorId);
      const [row] = await rowsOf<{ count: number }>(
        transaction,
        sql`with asked as (
            update ${parkedMessages} set asked_at = ${at}::timestamptz where ${chosen(connectorId, choice)} returning 1
          ) select count(*)::float8 as count from asked`,
      );
      return row?.count ?? 0;
    });
    return await stored(ask);
  }

  /** Drops messages, on record. Returns how many. What waited behind them is sent. */
  async discard(connectorId: string, choice: ParkedChoice, by: string): Promise<number> {
    const discard = this.database.transaction(async (transaction) => {
      const at = await nextTime(transaction, connectorId);
      const [row] = await rowsOf<{ count: number; ids: string | null }>(
        transaction,
        sql`with gone as (
            update ${parkedMessages} set state = 'discarded', body = null, asked_at = null, ended_at = ${at}::timestamptz,
              ended_by = ${by} where ${chosen(connectorId, choice)} returning id
          ) select count(*)::float8 as count, coalesce(json_agg(id), '[]')::text as ids from gone`,
      );
      if (!row || row.count === 0) return 0;
      await transaction.execute(followers(connectorId, JSON.parse(row.ids ?? "[]") as string[], at));
      return row.count;
    });
    return await stored(discard);
  }

  /** What is parked, by connector: of those that this instance holds; null: of all. */
  async totals(holder: string | null): Promise<ReadonlyMap<string, ParkedTotal>> {
    const ofHolder = sql`and connector_id in (select connector_id from ${leases} where holder = ${holder}::uuid)`;
    const rows = await stored(
      rowsOf<{ id: string; messages: number; bytes: number }>(
        this.database,
        sql`select connector_id as id, count(*)::float8 as messages, sum(bytes)::float8 as bytes from ${parkedMessages}
          where state = 'parked' ${holder === null ? sql`` : ofHolder} group by connector_id`,
      ),
    );
    return new Map(rows.map(({ id, messages, bytes }) => [id, { messages, bytes }]));
  }
}

/** Who changes several messages does so alone: two that come to the same ones in another order would wait for each other. */
export async function lockMessages(transaction: Database, connectorId: string): Promise<void> {
  await transaction.execute(
    sql`select pg_advisory_xact_lock(hashtextextended(${`millrace parked ${connectorId}`}, 0))`,
  );
}

/**
 * The time of a new wish, a retry or a discard. It is later than every earlier one of the connector: than a discard by a millisecond, as that is
 * kept without more digits. The lock makes wishes of a connector come one after the other. So a run that has seen one has seen all earlier ones.
 */
export async function nextTime(transaction: Database, connectorId: string): Promise<string> {
  await lockMessages(transaction, connectorId);
  const ofConnector = sql`from ${parkedMessages} where connector_id = ${connectorId}`;
  const [row] = await rowsOf<{ at: string }>(
    transaction,
    sql`select greatest(clock_timestamp(), (select max(asked_at) + interval '1 microsecond' ${ofConnector} and asked_at is not null),
      (select max(ended_at) + interval '1 millisecond' ${ofConnector} and state <> 'parked' and state = 'discarded'))::text as at`,
  );
  return row!.at;
}

/**
 * Asks for what shares a key with the discarded messages, and for all of a table where nothing tells whose row one is. Keys are looked up in
 * hash tables, whatever the server believes of how many there are: as a join they may be compared each with each. The smaller one is asked
 * first, as nearly all that is parked shares nothing.
 */
function followers(connectorId: string, gone: readonly string[], at: string): SQL {
  const ofTable = sql`(p.schema_name, p.table_name)`;
  return sql`with gone as (
      select schema_name, table_name, hashes, is_wide from ${parkedMessages}
      where connector_id = ${connectorId} and id = any (${listed(gone)})
    ), keys as (select schema_name, table_name, one.hash from gone, unnest(hashes) as one (hash) where not is_wide)
    update ${parkedMessages} as p set asked_at = ${at}::timestamptz
    where p.connector_id = ${connectorId} and p.state = 'parked' and (
      ${ofTable} in (select schema_name, table_name from gone where is_wide)
      or p.is_wide and ${ofTable} in (select schema_name, table_name from keys)
      or (select bool_or(own.hash in (select hash from keys)
          and (p.schema_name, p.table_name, own.hash) in (select schema_name, table_name, hash from keys))
        from unnest(p.hashes) as own (hash))
    )`;
}

function chosen(connectorId: string, choice: ParkedChoice): SQL {
  const parked = sql`connector_id = ${connectorId} and state = 'parked'`;
  if ("id" in choice) return sql`${parked} and id = ${choice.id}::uuid`;
  const { schema = null, table = null, before = null } = choice;
  return sql`${parked} ${named("schema_name", schema)} ${named("table_name", table)} ${parkedBefore(before)}`;
}

function parkedBefore(time: string | null): SQL {
  return time === null ? sql`` : sql`and parked_at < ${time}::timestamptz`;
}

function named(column: "schema_name" | "table_name", name: string | null): SQL {
  return name === null ? sql`` : sql`and ${sql.raw(column)} = ${name}`;
}

const time = (atMs: number) => new Date(atMs).toISOString();

function shown(row: Row): Parked {
  const isDiscarded = row.state === "discarded";
  return {
    id: row.id,
    schema: row.schema,
    table: row.table,
    state: isDiscarded ? "Discarded" : row.asked ? "Asked" : "Parked",
    cause: row.cause,
    keys: JSON.parse(row.keys) as Parked["keys"],
    rows: row.rows,
    bytes: row.bytes,
    ...(row.lsn === null ? {} : { first_lsn: row.lsn }),
    committed_at: time(row.committed),
    attempts: JSON.parse(row.attempts) as Parked["attempts"],
    parked_at: time(row.parked),
    ...(isDiscarded && row.ended !== null ? { discarded_at: time(row.ended) } : {}),
    ...(isDiscarded && row.by !== null ? { discarded_by: row.by } : {}),
  };
}
