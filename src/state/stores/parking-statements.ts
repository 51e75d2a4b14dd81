// The statements by which a run parks messages and cuts, notes attempts, and forgets what never comes again.

import { type SQL, sql } from "drizzle-orm";
import {
  type AttemptNote,
  keptNotes,
  type ParkedCause,
  type ParkedMessage,
  type ParkingCall,
  type RequestCut,
} from "../../connector/parking.ts";
import { type Database, rowsOf } from "../database.ts";
import { parkedMessages, requestCuts } from "../schema.ts";
import { receiptsSince } from "./receipt-store.ts";

/** How long a discard stays on record at least, and what is left of copies. */
const retention = sql.raw("interval '7 days'");

/** One that is there was made before the run died. */
export async function putCuts(
  database: Database,
  connectorId: string,
  cuts: readonly RequestCut[],
): Promise<void> {
  const cutAt = new Date();
  await database
    .insert(requestCuts)
    .values(cuts.map((cut) => ({ connectorId, ...cut, cutAt })))
    .onConflictDoNothing();
}

interface MessageRow {
  readonly place: number;
  readonly cause: ParkedCause;
  readonly [column: string]: unknown;
}

/** In their order. As JSON, because drivers write arrays and bytes in ways of their own. */
export async function putMessages(
  database: Database,
  connectorId: string,
  messages: readonly ParkedMessage[],
): Promise<void> {
  const rows = messages.map((message, place): MessageRow => {
    const { id, cause, schema, table, keys, hashes, isWide, rows, bytes, body, attempts } = message;
    const { places, firstRows, versions } = message;
    const isOne = places.length === 1;
    return {
      place,
      id,
      cause,
      schema,
      table,
      keys,
      hashes,
      rows,
      bytes,
      attempts,
      wide: isWide,
      min: versions[0],
      max: versions.at(-1),
      versions: isOne ? null : [versions, firstRows?.map((row) => versions[row])],
      maxPlace: String(places.at(-1)),
      places: isOne ? null : [places.map(String), firstRows],
      copy: message.isOfCopy,
      lsn: message.firstLsn,
      uncertain: message.mayHaveArrived,
      replaces: message.replaces ?? null,
      committed: new Date(message.committedAtMs).toISOString(),
      body: Buffer.from(body.buffer, body.byteOffset, body.length).toString("base64"),
    };
  });
  await database.execute(sql`with given as (
      select * from json_to_recordset(${JSON.stringify(rows)}::json) as given (place int, id uuid, cause text, "schema" text, "table" text,
        keys text, hashes int[], wide bool, rows int, bytes bigint, body text, min bigint, max bigint, versions jsonb, "maxPlace" numeric, places jsonb, copy bool, lsn text,
        committed timestamptz, attempts jsonb, uncertain bool, replaces uuid)
    ), gone as (
      delete from ${parkedMessages} where connector_id = ${connectorId} and state = 'parked'
      and id = any (array(select replaces from given where replaces is not null)) returning id, cause, attempts, asked_at, parked_at
    ) insert into ${parkedMessages}
    (connector_id, id, state, cause, schema_name, table_name, keys, hashes, is_wide, rows, bytes, body, min_version, max_version, versions,
      max_place, places, is_of_copy, first_lsn, committed_at, attempts, may_have_arrived, asked_at, parked_at, is_passed)
    select ${connectorId}::text, given.id, 'parked', coalesce(gone.cause, given.cause), "schema", "table", keys, hashes, wide, rows, bytes,
      decode(body, 'base64'), min, max, versions, "maxPlace", places, copy, lsn, committed, coalesce(gone.attempts, given.attempts), uncertain, gone.asked_at,
      coalesce(gone.parked_at, clock_timestamp()), false
    from given left join gone on gone.id = given.replaces order by place on conflict do nothing`);
}

export async function putAttempts(
  database: Database,
  connectorId: string,
  call: Extract<ParkingCall, { kind: "refused" | "held" }>,
): Promise<void> {
  const { id, attempts } = call;
  const [row] = await rowsOf<{ attempts: string }>(
    database,
    sql`select attempts::text as attempts from ${parkedMessages} where ${oneParked(connectorId, id)}`,
  );
  if (!row) return;
  const before = JSON.parse(row.attempts) as AttemptNote[];
  const kept = JSON.stringify(attempts.reduce(keptNotes, before as readonly AttemptNote[]));
  // Who has asked since then asks still.
  const asked =
    call.kind === "held"
      ? sql`coalesce(asked_at, clock_timestamp())`
      : sql`case when asked_at > ${call.askedUntil ?? "-infinity"}::timestamptz then asked_at end`;
  await database.execute(sql`update ${parkedMessages} set attempts = ${kept}::jsonb, asked_at = ${asked}
    where ${oneParked(connectorId, id)}`);
}

/** Rows of the stream may come again until they are passed, however long that takes. Those of a copy do not once it is made. */
export async function sweep(
  database: Database,
  connectorId: string,
  { place, version, areCopiesOpen }: Extract<ParkingCall, { kind: "sweep" }>,
): Promise<void> {
  const isPassed = sql`not is_of_copy and coalesce(max_place <= ${String(place)}::numeric, max_version <= ${version}::bigint)`;
  const isOld = sql`ended_at < clock_timestamp() - ${retention}`;
  const isOver = (isThatOld: SQL) =>
    areCopiesOpen ? isPassed : sql`(${isPassed} or is_of_copy and ${isThatOld})`;
  const ofConnector = sql`connector_id = ${connectorId}`;
  await database.execute(sql`delete from ${parkedMessages}
    where ${ofConnector} and state <> 'parked' and state = 'delivered' and ${isOver(isOld)}`);
  await database.execute(sql`delete from ${parkedMessages}
    where ${ofConnector} and state <> 'parked' and state = 'discarded' and is_passed and ${isOld}
    and ended_at < coalesce(${receiptsSince(connectorId)}, 'infinity')`);
  await database.execute(sql`update ${parkedMessages} set is_passed = true
    where ${ofConnector} and state <> 'parked' and state = 'discarded' and not is_passed and ${isOver(isOld)}`);
  await database.execute(sql`delete from ${requestCuts}
    where ${ofConnector} and ${isOver(sql`cut_at < clock_timestamp() - ${retention}`)}`);
}

function oneParked(connectorId: string, id: string): SQL {
  return sql`connector_id = ${connectorId} and id = ${id}::uuid and state = 'parked'`;
}

/** An array, so that the index is asked for each: without statistics, as in an embedded state, a join may compare each with all that is parked. */
export function listed(ids: readonly string[]): SQL {
  return sql`array(select value::uuid from json_array_elements_text(${JSON.stringify(ids)}::json))`;
}
