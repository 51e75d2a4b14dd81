// Rows of a real server: as wide as they can be, and what Debezium's form says of where they come from.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { variants } from "../../support/matrix.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
}, 30_000);
afterAll(() => server[Symbol.asyncDispose]());

test.each(variants(["native"], ["debezium"]))(
  "a table of 1,600 columns arrives whole in %s form",
  async (form) => {
    const database = `hook_wide_${form}`;
    await server.createDatabase(database);
    const names = Array.from({ length: 1600 }, (_, i) => `c${i}`);
    const columns = names.map((name, i) => `${name} ${i % 8 === 0 ? "bool" : "smallint"}`).join(", ");
    const values = (row: number) =>
      names.map((_, i) => (i % 8 === 0 ? i % 16 === 0 : i % 5 === 0 ? "null" : i + row));
    await server.query(
      `create table w (${columns}, primary key (c1)); alter table w replica identity full; insert into w values (${values(1)})`,
      database,
    );
    await using receiver = await WebhookReceiver.start();
    const connector = webhookConnector(receiver.url, { format: { [form]: {} } });
    const begun = { yes: false };
    const life = await WebhookLife.start(server.connection(database), connector, new RecordStore(), begun);
    await waitFor("the stream", () => life.phase === "realtime");
    await server.query(`insert into w values (${values(2)}); update w set c1599 = 7 where c1 = 3`, database);
    const rows = () => WebhookReceiver.rows(receiver.deduplicated).map((row) => (row.after ?? row) as object);
    await waitFor("the rows", () => rows().length === 3);
    await life.stop();
    const wanted = (row: number) =>
      Object.fromEntries(names.map((name, i) => [name, values(row)[i] === "null" ? null : values(row)[i]]));
    const own = (row: object) =>
      Object.fromEntries(Object.entries(row).filter(([name]) => !name.startsWith("_sm_")));
    expect(rows().map(own)).toEqual([wanted(1), wanted(2), { ...wanted(2), c1599: 7 }]);
  },
  30_000,
);

test("debezium's source says where each change stands in the log, and its transaction which of its rows it is", async () => {
  const database = "hook_places";
  await server.createDatabase(database);
  await server.query(
    "create table t (id int primary key, v text); insert into t values (0, 'copied')",
    database,
  );
  await using receiver = await WebhookReceiver.start();
  const format = { debezium: { emit_tx_metadata: true } };
  const connector = webhookConnector(receiver.url, { format, batch: { max_batch_size: 10 } });
  const begun = { yes: false };
  const life = await WebhookLife.start(server.connection(database), connector, new RecordStore(), begun);
  await waitFor("the stream", () => life.phase === "realtime");
  const at = "select (pg_current_wal_insert_lsn() - '0/0')::text as lsn";
  const place = async () => Number((await server.query<{ lsn: string }>(at, database))[0]!.lsn);
  const before = await place();
  await server.query(
    "begin; insert into t values (1, 'a'); update t set v = 'b' where id = 1; delete from t where id = 0; commit",
    database,
  );
  const behind = await place();
  type Envelope = {
    op: string;
    source: { lsn: number; sequence: string; txId: number };
    transaction: object;
  };
  const path = (name: string) => receiver.deduplicated.filter((request) => request.path === name);
  const rows = () => WebhookReceiver.rows(path("/public/t")) as unknown as Envelope[];
  const boundaries = () => WebhookReceiver.rows(path("/hooks/transaction"));
  await waitFor("the changes", () => rows().length === 4 && boundaries().length === 2);
  const [copied, ...changes] = rows();
  expect(copied).toMatchObject({ op: "r", transaction: null });
  const places = changes.map(({ source }) => source.lsn);
  expect([before, ...places, behind]).toEqual([before, ...places, behind].toSorted((a, b) => a - b));
  expect(new Set(places).size).toBe(3);
  const [{ source }] = changes as [Envelope];
  const [commit] = JSON.parse(source.sequence) as string[];
  expect(Number(commit)).toBeGreaterThan(places[2]!);
  const id = `${source.txId}:${commit}`;
  expect(changes.map(({ transaction }) => transaction)).toEqual(
    [1, 2, 3].map((order) => ({ id, total_order: order, data_collection_order: order })),
  );
  const [begin, end] = boundaries();
  expect(begin).toMatchObject({ status: "BEGIN", id, event_count: null });
  const collections = [{ data_collection: "public.t", event_count: 3 }];
  expect(end).toMatchObject({ status: "END", id, event_count: 3, data_collections: collections });
  await life.stop();
}, 30_000);
