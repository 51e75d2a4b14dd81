// What a run parks, and what it has to know of it. Whatever is written is durable on return, and refused under a term that is no longer the
// connector's. parking-statements.ts has how it is written, parked-messages.ts what people do with it.

import { type SQL, sql } from "drizzle-orm";
import type {
  CutPage,
  ParkedBodies,
  ParkedEntry,
  ParkedPage,
  ParkedWishes,
  ParkingAnswer,
  ParkingCall,
  RequestCut,
} from "../../connector/parking.ts";
import type { Term } from "../../connector/term.ts";
import { StreamGarbage } from "../../memory/stream-garbage.ts";
import { type Database, rowsOf, stored } from "../database.ts";
import { parkedMessages, requestCuts } from "../schema.ts";
import { fenced } from "./fence.ts";
import { OpenWrites } from "./open-writes.ts";
import { lockMessages, nextTime } from "./parked-messages.ts";
import { listed, putAttempts, putCuts, putMessages, sweep } from "./parking-statements.ts";
import { removeInPieces } from "./piecewise-removal.ts";

/** Entries of a page. */
const pageSize = 2_000;
/** What is made of an entry on its way from the database to a run, approximately. */
const bytesOfEntry = 2_048;
/** Discards in the last of these are told to a run that looks for the first time: what it has loaded may be as old. */
const toldFor = sql.raw("interval '10 minutes'");
/** It waited behind another one, and was never sent. */
const isUntried = sql.raw("(state = 'parked' and cause = 'behind' and attempts = '[]'::jsonb)");
const untriedMs = sql.raw(
  "case when state = 'parked' and asked_at is null then 1000 * extract(epoch from clock_timestamp() - coalesce((attempts->-1->>'at')::timestamptz, parked_at))::float8 end",
);

interface EntryRow {
  readonly sequence: number;
  readonly state: string;
  readonly untried: boolean;
  readonly uncertain: boolean;
  readonly rest: number | null;
  readonly id: string;
  readonly schema: string;
  readonly table: string;
  readonly hashes: string;
  readonly wide: boolean;
  readonly max: number;
  readonly versions: string | null;
  readonly place: string | null;
  readonly places: string | null;
  readonly copy: boolean;
  readonly bytes: number;
}

interface WishesRow {
  readonly wanted: string;
  readonly until: string | null;
  readonly discarded: string;
  readonly gone: string;
}

interface CutRow {
  readonly key: string;
  readonly parts: string;
  readonly max: number;
  readonly place: string | null;
}

export class RunParking {
  readonly #writes = new OpenWrites();
  readonly #garbage = new StreamGarbage();

  constructor(private readonly database: Database) {}

  /** What a run loads has all that earlier ones have written, also what is still being written. Throws `lease_lost`, `state_unavailable`. */
  async answer(connectorId: string, call: ParkingCall, term: Term): Promise<ParkingAnswer> {
    const write = async (work: (database: Database) => Promise<unknown>) => {
      await this.#writes.add(connectorId, stored(fenced(this.database, { connectorId, term }, work)));
      return null;
    };
    const writeMany = (query: SQL) =>
      write((database) =>
        database.transaction(async (transaction) => {
          await lockMessages(transaction, connectorId);
          await transaction.execute(query);
        }),
      );
    switch (call.kind) {
      case "load":
        await this.#writes.ended(connectorId);
        return await stored(this.#load(connectorId, call.after));
      case "look":
        return await stored(this.#look(connectorId, call.askedSince, call.discardedSince));
      case "ask":
        return await write((database) =>
          database.transaction(async (transaction) => {
            const at = await nextTime(transaction, connectorId);
            await transaction.execute(sql`update ${parkedMessages} set asked_at = ${at}::timestamptz
              where connector_id = ${connectorId} and state = 'parked' and asked_at is null`);
          }),
        );
      case "bodies":
        return await stored(this.#bodies(connectorId, call.ids));
      case "cuts":
        await this.#writes.ended(connectorId);
        return await stored(this.#cuts(connectorId, call.after));
      case "find-cut":
        return await stored(this.#findCut(connectorId, call.key));
      case "cut":
        return await write((database) => putCuts(database, connectorId, call.cuts));
      case "uncut":
        return await write((database) =>
          database.execute(sql`delete from ${requestCuts} where connector_id = ${connectorId}
            and key = any (${listed(call.keys)})`),
        );
      case "park":
        return await write((database) => putMessages(database, connectorId, call.messages));
      case "delivered":
        return await writeMany(sql`update ${parkedMessages}
          set state = 'delivered', body = null, asked_at = null, ended_at = clock_timestamp()
          where connector_id = ${connectorId} and id = any (${listed(call.ids)}) and state = 'parked'`);
      case "refused":
      case "held":
        return await write((database) => putAttempts(database, connectorId, call));
      case "tried":
        return await writeMany(sql`update ${parkedMessages} set asked_at = null
          where connector_id = ${connectorId} and asked_at <= ${call.askedUntil}::timestamptz`);
      case "sweep":
        return await write((database) => sweep(database, connectorId, call));
      default:
        return call satisfies never;
    }
  }

  /**
   * The connector begins again: nothing that it sent before counts. Waits for what a run that has ended is still writing, so that it is removed
   * too. Throws `lease_lost`.
   */
  async remove(connectorId: string, term: Term): Promise<void> {
    await this.#writes.ended(connectorId);
    for (const name of ["parkedMessages", "requestCuts"] as const)
      await stored(removeInPieces(this.database, { connectorId, term }, name));
  }

  async #load(connectorId: string, after: number): Promise<ParkedPage> {
    // The page before.
    if (after > 0) this.#garbage.released(pageSize * bytesOfEntry);
    const rows = await rowsOf<EntryRow>(
      this.database,
      sql`select sequence::float8 as sequence, state, ${isUntried} as untried, may_have_arrived or cause = 'exhausted' as uncertain, id::text as id, schema_name as schema, table_name as table,
          to_json(hashes)::text as hashes, is_wide as wide, max_version::float8 as max, versions::text as versions, max_place::text as place, places::text as places,
          is_of_copy as copy, bytes::float8 as bytes, ${untriedMs} as rest
        from ${parkedMessages}
        where connector_id = ${connectorId} and sequence > ${after}::bigint and (state = 'parked' or not is_passed)
        order by ${parkedMessages.sequence} limit ${pageSize}::int`,
    );
    return {
      entries: rows.map(entryOf),
      next: rows.length < pageSize ? null : rows.at(-1)!.sequence,
    };
  }

  async #cuts(connectorId: string, after: string | null): Promise<CutPage> {
    const isAfter = after === null ? sql`` : sql`and key > ${after}::uuid`;
    const rows = await rowsOf<CutRow & { readonly copy: boolean }>(
      this.database,
      sql`select key::text as key, case when not is_of_copy then parts::text end as parts, max_version::float8 as max, max_place::text as place, is_of_copy as copy
        from ${requestCuts} where connector_id = ${connectorId} ${isAfter} order by ${requestCuts.key} limit ${pageSize}::int`,
    );
    return {
      cuts: rows.flatMap((row) => (row.copy ? [] : [cutOf(row, false)])),
      ofCopies: rows.flatMap(({ key, copy }) => (copy ? [key] : [])),
      next: rows.length < pageSize ? null : rows.at(-1)!.key,
    };
  }

  async #findCut(connectorId: string, key: string): Promise<RequestCut | null> {
    const [row] = await rowsOf<CutRow & { readonly copy: boolean }>(
      this.database,
      sql`select key::text as key, parts::text as parts, max_version::float8 as max, max_place::text as place, is_of_copy as copy
        from ${requestCuts} where connector_id = ${connectorId} and key = ${key}::uuid`,
    );
    return row ? cutOf(row, row.copy) : null;
  }

  async #look(
    connectorId: string,
    askedSince: string | null,
    discardedSince: string | null,
  ): Promise<ParkedWishes> {
    const asked = sql`from ${parkedMessages} where connector_id = ${connectorId} and state = 'parked'
      and asked_at is not null ${askedSince === null ? sql`` : sql`and asked_at > ${askedSince}::timestamptz`}`;
    const since =
      discardedSince === null ? sql`clock_timestamp() - ${toldFor}` : sql`${discardedSince}::timestamptz`;
    const gone = sql`from ${parkedMessages} where connector_id = ${connectorId}
      and state <> 'parked' and state = 'discarded' and ended_at > ${since}`;
    const [row] = await rowsOf<WishesRow>(
      this.database,
      sql`select (select coalesce(json_agg(id order by sequence), '[]') ${asked})::text as wanted,
        (select max(asked_at) ${asked})::text as until,
        (select coalesce(json_agg(id), '[]') ${gone})::text as discarded, (select coalesce(max(ended_at), ${since}) ${gone})::text as gone`,
    );
    const { wanted, until, discarded, gone: discardedUntil } = row!;
    return {
      wanted: JSON.parse(wanted) as string[],
      askedUntil: until,
      discarded: JSON.parse(discarded) as string[],
      discardedUntil,
    };
  }

  async #bodies(connectorId: string, ids: readonly string[]): Promise<ParkedBodies> {
    const rows = await rowsOf<{ id: string; body: string }>(
      this.database,
      sql`select id::text as id, encode(body, 'base64') as body from ${parkedMessages}
        where connector_id = ${connectorId} and id = any (${listed(ids)}) and state = 'parked'`,
    );
    return new Map(rows.map(({ id, body }) => [id, new Uint8Array(Buffer.from(body, "base64"))]));
  }
}

function entryOf(row: EntryRow): ParkedPage["entries"][number] {
  const { id, schema, table, wide, copy, bytes } = row;
  const hashes = JSON.parse(row.hashes) as number[];
  return {
    entry: { id, schema, table, hashes, isWide: wide, ...placesOf(row), isOfCopy: copy, bytes },
    isSettled: row.state !== "parked",
    isUntried: row.untried,
    mayHaveArrived: row.uncertain,
    untriedMs: row.rest,
  };
}

/** What an earlier version of millrace has parked has versions in their place. */
function placesOf({ max, versions, place, places }: EntryRow): Pick<ParkedEntry, "places" | "firstRows"> {
  if (place !== null) {
    const [all, firstRows] = JSON.parse(places ?? "[null, null]") as [string[] | null, number[] | null];
    return { places: all?.map(BigInt) ?? [BigInt(place)], firstRows };
  }
  const [all, firsts] = JSON.parse(versions ?? `[[${max}], null]`) as [number[], number[] | null];
  const rowOf = new Map(all.map((version, row) => [version, row]));
  return {
    places: all.map((version) => BigInt(-version)),
    firstRows: firsts?.map((version) => rowOf.get(version) ?? 0) ?? null,
  };
}

function cutOf({ key, parts, max, place }: CutRow, isOfCopy: boolean): RequestCut {
  const maxPlace = place === null ? BigInt(-max) : BigInt(place);
  return { key, maxPlace, maxVersion: max, isOfCopy, parts: JSON.parse(parts) as string[] };
}
