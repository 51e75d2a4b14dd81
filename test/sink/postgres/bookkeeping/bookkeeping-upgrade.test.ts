// A later version needs tables and columns that millrace's schema at the sink lacks: they are added while connectors of other roles, and of
// the earlier version, use the schema.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { ensureBookkeeping } from "../../../../src/sink/postgres/bookkeeping/ensure-bookkeeping.ts";
import { PostgresSinkRig } from "../../../support/pipeline/postgres-sink-rig.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query("create role first login; create role second login");
});
afterAll(() => server[Symbol.asyncDispose]());

/** The first role has made the schema, and the second one was granted what validation tells. */
async function grown(name: string): Promise<PostgresSinkRig> {
  const setup = `grant create, temporary on database ${name} to first, second`;
  const rig = await PostgresSinkRig.begin(server, name, { setup, connection: { user: "first" } });
  await rig.query(`grant usage, create on schema millrace to second;
    grant select, insert, update, delete on all tables in schema millrace to second`);
  await rig.die();
  return rig;
}

/** Opens the sink as this role, and ends it. */
async function openAs(rig: PostgresSinkRig, user: string): Promise<void> {
  const other = rig.as(user);
  try {
    await other.open();
  } finally {
    await other.die();
  }
}

test.each([
  ["first", "second"],
  ["second", "first"],
])("a table that %s makes is %s's to use as well", async (maker, user) => {
  await using rig = await grown(`made_by_${maker}`);
  await rig.query("drop table millrace.enum_label, millrace.owed_row");
  await openAs(rig, maker);
  expect(
    await rig.query("select tableowner from pg_tables where tablename in ('enum_label', 'owed_row')"),
  ).toEqual([{ tableowner: maker }, { tableowner: maker }]);
  await openAs(rig, user);
  await rig.query(`set role ${user}; insert into millrace.enum_label values ('c', 's', 't', '[]');
    delete from millrace.owed_row`);
  await openAs(rig, maker);
});

test("a role that may not add a column is told the owner and the SQL", async () => {
  await using rig = await grown("columns");
  await rig.query(`alter table millrace.table_copy drop column is_unproved, drop column targets;
    alter table millrace.checkpoint drop column source_log`);
  const refusal = await openAs(rig, "second").catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: "sink_permission_denied" });
  const [, owner, sql = ""] = /their owner (\w+), .* run: (.+)$/s.exec(String(refusal)) ?? [];
  expect(owner).toBe("first");
  await rig.query(`set role first; ${sql}`);
  await openAs(rig, "second");
});

test("the owner adds a column when nobody holds its table, and keeps no other table meanwhile", async () => {
  await using rig = await grown("held");
  await rig.query("alter table millrace.owed_row drop column key_names");
  await using holder = await server.connect(rig.name);
  await holder.query("begin; delete from millrace.owed_row");
  const opened = rig.as("first");
  const opening = opened.open();
  await waitFor("it waits", async () => {
    const waiting = "select from pg_locks where relation = 'millrace.owed_row'::regclass and not granted";
    return (await rig.query(waiting)).length > 0;
  });
  // As a connector of the earlier version does.
  await rig.query("set lock_timeout = '1s'; update millrace.checkpoint set updated_at = now()");
  // Others get to the table too, between two attempts.
  await rig.query("set lock_timeout = '10s'; select from millrace.owed_row");
  // A transaction that goes on to its checkpoint meets no deadlock.
  await holder.query("update millrace.checkpoint set updated_at = now(); commit");
  await opening;
  expect(
    await rig.query(
      "select from pg_attribute where attrelid = 'millrace.owed_row'::regclass and attname = 'key_names'",
    ),
  ).toHaveLength(1);
  await opened.die();
});

test("a table is made while another transaction holds all the others", async () => {
  await using rig = await grown("complete");
  await rig.query("drop table millrace.enum_label");
  await using holder = await server.connect(rig.name);
  await holder.query("begin; select from millrace.owed_row, millrace.table_shape, millrace.table_copy");
  await openAs(rig, "first");
  expect(await rig.query("select from pg_tables where tablename = 'enum_label'")).toHaveLength(1);
  await holder.query("rollback");
});

test("connectors that meet an empty database at once make the tables once", async () => {
  await server.createDatabase("empty");
  const sessions = await Promise.all([1, 2, 3].map(() => server.connect("empty")));
  await Promise.all(sessions.map(ensureBookkeeping));
  expect(await server.query("select from pg_tables where tablename = 'checkpoint'", "empty")).toHaveLength(1);
  await Promise.all(sessions.map((session) => session[Symbol.asyncDispose]()));
});
