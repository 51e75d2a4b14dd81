// The statement that saves records: texts and changed parts of several connectors, all at once.

import { type SQL, sql } from "drizzle-orm";
import type { ReceiptBatch } from "../../connector/receipts.ts";
import { type Database, keptPlan, rowsOf } from "../database.ts";
import { leases } from "../replica-tables.ts";
import { receipts, type sinkRecordParts, type sinkRecords, type sourceRecords } from "../schema.ts";

export type RecordTable = typeof sinkRecords | typeof sourceRecords;
export type PartTable = typeof sinkRecordParts;

export interface RecordTables {
  readonly table: RecordTable;
  readonly partTable: PartTable | null;
}

export interface RecordChanges {
  readonly changed: readonly ChangedPart[];
  readonly added: readonly AddedReceipts[];
}

export interface ChangedText {
  readonly connectorId: string;
  readonly text: string;
}

export interface ChangedPart {
  readonly connectorId: string;
  readonly name: string;
  /** Null: it is removed. */
  readonly part: string | null;
}

/** A batch of receipts, which is stored with the record. */
export interface AddedReceipts extends ReceiptBatch {
  readonly connectorId: string;
}

export async function putRecords(
  database: Database,
  { table, partTable }: RecordTables,
  texts: readonly ChangedText[],
  { changed, added }: RecordChanges,
): Promise<void> {
  const parts = [
    ...(partTable ? partChanges(database, partTable, changed) : []),
    ...(added.length === 0 ? [] : [receiptChanges(database, added)]),
  ];
  const values = texts.map(({ connectorId, text }) => ({ connectorId, record: text }));
  await database
    .with(...parts)
    .insert(table)
    .values(values)
    .onConflictDoUpdate({ target: table.connectorId, set: { record: sql`excluded.record` } });
}

/**
 * As `putRecords`, of the connectors that are still under the term. Returns these. Its text is the same for any number of
 * records, so that a session plans it once: planning takes longer than everything else that the fence costs.
 */
export async function putFencedRecords(
  database: Database,
  { table, partTable }: RecordTables,
  texts: readonly (ChangedText & { readonly term: number })[],
  { changed, added }: RecordChanges,
): Promise<ReadonlySet<string>> {
  const ids = arrayOf(texts.map(({ connectorId }) => connectorId));
  const terms = arrayOf(texts.map(({ term }) => String(term)));
  const records = arrayOf(texts.map(({ text }) => text));
  const statement = sql`${keptPlan}
    with held as (
      select given.* from unnest(${ids}::text[], ${terms}::bigint[], ${records}::text[])
        as given (connector_id, term, record)
      join ${leases} l on l.connector_id = given.connector_id and l.term = given.term
      order by l.connector_id for key share of l
    )${partTable ? fencedParts(partTable, changed) : sql``}${added.length === 0 ? sql`` : fencedReceipts(added)}
    insert into ${table} (connector_id, record) select connector_id, record from held
    on conflict (connector_id) do update set record = excluded.record returning connector_id as id`;
  const rows = await rowsOf<{ id: string }>(database, statement);
  return new Set(rows.map(({ id }) => id));
}

function fencedParts(table: PartTable, changed: readonly ChangedPart[]): SQL {
  const removed = changed.filter(({ part }) => part === null);
  const written = changed.filter(({ part }) => part !== null);
  const columns = (
    of: readonly ChangedPart[],
  ) => sql`${arrayOf(of.map(({ connectorId }) => connectorId))}::text[],
    ${arrayOf(of.map(({ name }) => name))}::text[]`;
  const remove = sql`, removed as (
    delete from ${table} old using unnest(${columns(removed)}) as part (connector_id, name)
    join held on held.connector_id = part.connector_id
    where old.connector_id = part.connector_id and old.name = part.name
  )`;
  const write = sql`, written as (
    insert into ${table} (connector_id, name, part)
    select part.* from unnest(${columns(written)}, ${arrayOf(written.map(({ part }) => part ?? ""))}::text[])
      as part (connector_id, name, part)
    join held on held.connector_id = part.connector_id
    on conflict (connector_id, name) do update set part = excluded.part
  )`;
  return sql`${removed.length === 0 ? sql`` : remove}${written.length === 0 ? sql`` : write}`;
}

/** Because drivers write bytes in ways of their own. */
function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}

function receiptColumns(added: readonly AddedReceipts[]): SQL {
  const of = (text: (batch: AddedReceipts) => string) => arrayOf(added.map(text));
  return sql`select given.connector_id, given.id, given.began_at, given.requests, decode(given.body, 'base64') as body,
      decode(given.filter, 'base64') as filter
    from unnest(${of(({ connectorId }) => connectorId)}::text[], ${of(({ id }) => id)}::uuid[],
      ${of(({ beganAtMs }) => new Date(beganAtMs).toISOString())}::timestamptz[], ${of(({ requests }) => String(requests))}::int[],
      ${of(({ body }) => base64Of(body))}::text[], ${of(({ filter }) => base64Of(filter))}::text[])
      as given (connector_id, id, began_at, requests, body, filter)`;
}

const receiptInsert = sql`insert into ${receipts} (connector_id, id, began_at, requests, body, filter)`;
const receiptUpdate = sql`on conflict (connector_id, id) do update
  set requests = excluded.requests, body = excluded.body, filter = excluded.filter`;

function fencedReceipts(added: readonly AddedReceipts[]): SQL {
  return sql`, receipted as (
    ${receiptInsert} select added.* from (${receiptColumns(added)}) as added
    join held on held.connector_id = added.connector_id ${receiptUpdate}
  )`;
}

/** Without arrays, which would take longer to plan and to read than all else of the statement. */
function receiptChanges(database: Database, added: readonly AddedReceipts[]) {
  const rows = added.map(
    ({ connectorId, id, beganAtMs, requests, body, filter }) =>
      sql`(${connectorId}, ${id}::uuid, ${new Date(beganAtMs).toISOString()}::timestamptz, ${requests}::int,
        decode(${base64Of(body)}, 'base64'), decode(${base64Of(filter)}, 'base64'))`,
  );
  const statement = sql`${receiptInsert} values ${sql.join(rows, sql`, `)} ${receiptUpdate} returning ${receipts.id}`;
  return database.$with("receipted", { id: receipts.id }).as(statement as SQL<unknown>);
}

/** As Postgres reads an array: https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO */
function arrayOf(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

function partChanges(database: Database, table: PartTable, changed: readonly ChangedPart[]) {
  const name = { name: table.name };
  const removed = changed.filter(({ part }) => part === null).map((each) => [each.connectorId, each.name]);
  const written = changed.flatMap(({ part, ...of }) => (part === null ? [] : [{ ...of, part }]));
  const remove = () =>
    database.delete(table).where(sql`(${table.connectorId}, ${table.name}) in ${removed}`).returning(name);
  const write = () =>
    database
      .insert(table)
      .values(written)
      .onConflictDoUpdate({ target: [table.connectorId, table.name], set: { part: sql`excluded.part` } })
      .returning(name);
  return [
    ...(removed.length === 0 ? [] : [database.$with("removed").as(remove())]),
    ...(written.length === 0 ? [] : [database.$with("written").as(write())]),
  ];
}
