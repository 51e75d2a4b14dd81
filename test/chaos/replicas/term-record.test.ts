// The record must see what it is there for: a term that comes back, a checkpoint that goes back, a session without a term.

import { afterAll, beforeEach, expect, test } from "bun:test";
import { bookkeepingTables, createTable } from "../../../src/sink/postgres/bookkeeping/bookkeeping-tables.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TermRecord } from "./term-record.ts";

const server = await PostgresServer.start({ settings: { fsync: "off" } });
afterAll(() => server[Symbol.asyncDispose]());

const id = "orders";
let database = "";
let record: TermRecord;
let made = 0;
beforeEach(async () => {
  database = `sink_${++made}`;
  await server.createDatabase(database);
  await server.query(`create schema millrace; ${bookkeepingTables.map(createTable).join("\n")}`, database);
  // The state is another server's.
  await server.query(
    "drop schema if exists millrace cascade; create schema millrace; " +
      "create table millrace.lease_terms (connector_id text, term bigint, replica_id text, taken_at timestamptz)",
  );
  record = await TermRecord.begin(server, server, new Map([[id, database]]));
});

const take = (term: number) =>
  server.query(`insert into millrace.lease_terms values ('${id}', ${term}, 'a', clock_timestamp())`);

/** As a run does that applies under this term. */
async function move(lsn: string, session: string): Promise<void> {
  await using client = await server.connect(database);
  await client.query(`set application_name = '${session}'; set session_replication_role = replica`);
  await client.query(
    `insert into millrace.checkpoint (connector_id, resume_lsn, last_version) values ('${id}', '${lsn}', 1) ` +
      "on conflict (connector_id) do update set resume_lsn = excluded.resume_lsn",
  );
}

const apply = (term: number) => `millrace apply ${id} mfz3k2ab t${term}`;
const broken = () =>
  record.expectInOrder().then(
    () => null,
    (error: Error) => error.message,
  );

test("terms that follow each other are in order, also over rounds", async () => {
  await take(1);
  await move("0/10", apply(1));
  await record.expectInOrder();
  await take(2);
  await move("0/20", apply(1));
  await move("0/30", apply(2));
  await record.expectInOrder();
  expect([record.moves, record.late]).toEqual([3, 1]);
  expect(await record.firstMoveAbove(id, 1)).toBeNumber();
  expect(await record.firstMoveAbove(id, 2)).toBeNull();
});

test("an older term behind a later one is found", async () => {
  for (const term of [1, 2]) await take(term);
  await move("0/10", apply(2));
  await record.expectInOrder();
  await move("0/20", apply(1));
  expect(await broken()).toContain("went back");
});

test("an older term is found that moves once the later one has begun at the sink", async () => {
  for (const term of [1, 2]) await take(term);
  await server.query(
    `insert into millrace.run_term (connector_id, owner, term) values ('${id}', 'mfz3k2ab', 2)`,
    database,
  );
  await move("0/20", apply(1));
  expect(await broken()).toContain("went back");
});

test("a checkpoint that goes back, a session without a term, and a term that nobody took are found", async () => {
  for (const term of [1, 2]) await take(term);
  await move("0/20", apply(1));
  await move("0/10", apply(2));
  expect(await broken()).toContain("went back");
  await server.query("truncate chaos.moves", database);
  await move("0/30", "millrace apply");
  expect(await broken()).toContain("went back");
  await server.query("truncate chaos.moves", database);
  await move("0/40", apply(3));
  expect(await broken()).toContain("under term 3");
});
