// Somebody alters the connector's own publications while the connector reconciles them. The next read must report it,
// because changes may be missing; unreported, they would be lost.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Client } from "pg";
import { toMillraceError } from "../../../src/errors/millrace-error.ts";
import { selectionOf } from "../../../src/source/postgres/catalog/table-selection.ts";
import { SourcePublications } from "../../../src/source/postgres/publication/source-publications.ts";
import { readTableShapes } from "../../../src/source/postgres/shapes/table-shapes.ts";
import { SourceState } from "../../../src/source/source-state.ts";
import { postgresSource } from "../../support/api/connector-config.ts";
import { pick } from "../../support/matrix.ts";
import { memorySourceState } from "../../support/pipeline/source-state.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const own = "millrace_raced";
const moreThanThereAre = 100;

/** A session that waits for our transaction continues after it. */
const headStartMs = 100;

/** Runs `sql` in another session once `client` has received `count` results. `done` is null until then. */
function meddleAfter(client: Client, count: number, sql: string): { done: Promise<unknown> | null } {
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
  const meddling: { done: Promise<unknown> | null } = { done: null };
  let answers = 0;
  client.query = (async (...args: unknown[]) => {
    const result = await query(...args);
    if (++answers !== count) return result;
    meddling.done = server.query(sql);
    await Promise.race([meddling.done, Bun.sleep(headStartMs)]);
    return result;
  }) as Client["query"];
  return meddling;
}

const nothing = () => Promise.resolve();

async function withMeddling(count: number, sql: string, before: string) {
  await server.query(`drop publication if exists ${own}, "${own}$append"; drop table if exists a, b, c;
    create table a (id int primary key); create table b (id int primary key)`);
  const config = postgresSource(server.connection("postgres"));
  const state = await SourceState.load(memorySourceState());
  const read = async (client: Client) => {
    const publications = new SourcePublications(config, own, { state, events: { warning: () => {} } });
    return {
      publications,
      tables: await publications.read(client, await readTableShapes(client, selectionOf(config), false)),
    };
  };
  await using client = await server.connect();
  await client.query("set search_path = ''");
  const first = await read(client);
  await first.publications.publish(client, first.tables, nothing);
  await server.query(before);
  const second = await read(client);
  await using raced = await server.connect();
  await raced.query("set search_path = ''");
  const meddling = meddleAfter(raced, count, sql);
  const outcome = await second.publications.publish(raced, second.tables, nothing).then(
    () => "published",
    (error) => toMillraceError(error).code,
  );
  await meddling.done;
  const next = await read(client).then(
    ({ tables }) => tables.find(({ relation }) => relation.name === "b")?.coverage?.isUnpublished,
    (error) => toMillraceError(error).code,
  );
  return { wasDone: meddling.done !== null, outcome, next };
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

/** Each kind in one of the two ways, every day. */
const meddling = kinds.flatMap((kind, i) => {
  const ways = [
    [kind[0], "nothing is to be altered", kind, "select 1"],
    [kind[0], "a table is to be added", kind, "create table c (id int primary key)"],
  ] as const;
  return pick(ways, (_, j) => j === i % 2);
});

test.each(meddling)("somebody %s while %s", async (_, __, [, sql, expected], before) => {
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

test("what is published as it is to be asks for nothing that is made at the source", async () => {
  await server.query(`drop publication if exists ${own}, "${own}$append"; drop table if exists a, b, c, aside;
    create table a (id int primary key)`);
  const config = postgresSource(server.connection("postgres"));
  const state = await SourceState.load(memorySourceState());
  await using client = await server.connect();
  await client.query("set search_path = ''");
  const makings: string[] = [];
  const publish = async (when: string) => {
    const publications = new SourcePublications(config, own, { state, events: { warning: () => {} } });
    const tables = await publications.read(client, await readTableShapes(client, selectionOf(config), false));
    await publications.publish(client, tables, async () => {
      makings.push(when);
      await state.willMakeObjects();
    });
  };
  await publish("at first");
  await publish("again");
  await server.query(
    "create schema aside; create table aside.b (id int primary key); drop schema aside cascade",
  );
  await publish("after another table came and went");
  await server.query("create table b (id int primary key)");
  await publish("with another table");
  expect(makings).toEqual(["at first", "with another table"]);
});
