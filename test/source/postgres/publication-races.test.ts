// Somebody alters the connector's own publications at any moment while it puts them right: the next look tells so, as changes
// may be missing. What nobody would tell of would be lost.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Client } from "pg";
import { toMillraceError } from "../../../src/errors/millrace-error.ts";
import { selectionOf } from "../../../src/source/postgres/catalog/table-selection.ts";
import { SourcePublications } from "../../../src/source/postgres/publication/source-publications.ts";
import { readTableShapes } from "../../../src/source/postgres/shapes/table-shapes.ts";
import { SourceNotes } from "../../../src/source/source-notes.ts";
import { postgresSource } from "../../support/connector-config.ts";
import { noteStore } from "../../support/note-store.ts";
import { PostgresServer } from "../../support/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const own = "millrace_raced";
const moreThanThereAre = 100;

/** A session that waits for our transaction goes on behind it. */
const headStartMs = 100;

/** Runs `sql` in another session once `client` has had `count` answers. What is returned is null until then. */
function meddleAfter(client: Client, count: number, sql: string): { done: Promise<unknown> | null } {
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
  const told: { done: Promise<unknown> | null } = { done: null };
  let answers = 0;
  client.query = (async (...args: unknown[]) => {
    const result = await query(...args);
    if (++answers !== count) return result;
    told.done = server.query(sql);
    await Promise.race([told.done, Bun.sleep(headStartMs)]);
    return result;
  }) as Client["query"];
  return told;
}

async function withMeddling(count: number, sql: string, before: string) {
  await server.query(`drop publication if exists ${own}, "${own}$append"; drop table if exists a, b, c;
    create table a (id int primary key); create table b (id int primary key)`);
  const config = postgresSource(server.connection("postgres"));
  const notes = await SourceNotes.load(noteStore());
  const look = async (client: Client) => {
    const publications = new SourcePublications(config, own, { notes, events: { warning: () => {} } });
    return {
      publications,
      tables: await publications.look(client, await readTableShapes(client, selectionOf(config), false)),
    };
  };
  await using client = await server.connect();
  await client.query("set search_path = ''");
  const first = await look(client);
  await first.publications.publish(client, first.tables);
  await server.query(before);
  const second = await look(client);
  await using raced = await server.connect();
  await raced.query("set search_path = ''");
  const told = meddleAfter(raced, count, sql);
  const outcome = await second.publications.publish(raced, second.tables).then(
    () => "published",
    (error) => toMillraceError(error).code,
  );
  await told.done;
  const next = await look(client).then(
    ({ tables }) => tables.find(({ relation }) => relation.name === "b")?.coverage?.isUnpublished,
    (error) => toMillraceError(error).code,
  );
  return { wasDone: told.done !== null, outcome, next };
}

const kinds = [
  ["takes a table out", `alter publication ${own} drop table b`, true],
  [
    "takes a table out and puts it back",
    `alter publication ${own} drop table b; alter publication ${own} add table b`,
    true,
  ],
  ["narrows it", `alter publication ${own} set (publish = 'insert')`, "publication_mismatch"],
  [
    "narrows and widens it",
    `alter publication ${own} set (publish = 'insert'); alter publication ${own} set (publish = 'insert, update, delete, truncate')`,
    true,
  ],
] as const;

test.each(
  kinds.flatMap((kind) => [
    [kind[0], "nothing is to be altered", kind, "select 1"] as const,
    [kind[0], "a table is to be added", kind, "create table c (id int primary key)"] as const,
  ]),
)("somebody %s while %s", async (_, __, [, sql, expected], before) => {
  expect(await withMeddling(moreThanThereAre, sql, before)).toEqual({
    wasDone: false,
    outcome: "published",
    next: false,
  });
  let moments = 0;
  for (let count = 1; ; count++) {
    const { wasDone, outcome, next } = await withMeddling(count, sql, before);
    if (!wasDone) break;
    moments++;
    expect([count, next]).toEqual([count, expected]);
    expect(["published", "table_changed"]).toContain(outcome);
  }
  expect(moments).toBeGreaterThan(3);
});
