// A table that cannot be read, at a webhook: its changes are sent meanwhile, and the copy that comes late brings what they lacked.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { parseRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { logicalReplication } from "../../../support/api/connector-config.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookLife } from "../../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../../support/webhook/webhook-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
}, 30_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

interface Row {
  readonly id?: number;
  readonly v: string;
  readonly big?: string;
  readonly _sm_version: number;
  readonly _sm_deleted: boolean;
}

const rowsOf = (receiver: WebhookReceiver, table: string): Row[] =>
  receiver.deduplicated
    .filter(({ path }) => path === `/public/${table}`)
    .flatMap(({ body }) => JSON.parse(body) as Row[]);

/** The latest state of each row. */
function heldOf(receiver: WebhookReceiver): object[] {
  const latest = new Map<unknown, Row>();
  for (const row of rowsOf(receiver, "item").toSorted((a, b) => a._sm_version - b._sm_version))
    latest.set(row.id, row);
  const there = [...latest.values()].filter((row) => !row._sm_deleted);
  return there.map(({ id, v, big }) => ({ id, v, big })).toSorted((a, b) => Number(a.id) - Number(b.id));
}

test("its changes are sent, also over a death; then come the rows, those without a key once", async () => {
  const database = "hook_late";
  await server.createDatabase(database);
  const sql = (text: string) => server.query<object>(text, database);
  await sql(`create role late_reader login replication; create table item (id int primary key, v text, big text);
    alter table item alter big set storage external; insert into item select i, 'old', repeat('x', 5000) from generate_series(1, 20) i;
    create table log (v text); insert into log values ('a'), ('a'); create publication late for all tables`);
  await using receiver = await WebhookReceiver.start();
  const connector = webhookConnector(receiver.url);
  const store = new RecordStore();
  const begun = { yes: false };
  const start = () =>
    WebhookLife.start({ ...server.connection(database), user: "late_reader" }, connector, store, begun, {
      replication_type: { logical_replication: logicalReplication("late") },
    });
  let life = await start();
  const until = (what: string, isThere: () => boolean) => waitFor(what, isThere, { timeoutMs: 20_000 });
  await until("the stream", () => life.phase === "realtime");
  expect(life.setAside?.map(({ name, since, reason }) => [name, since, reason])).toEqual([
    ["item", null, expect.stringContaining("GRANT SELECT")],
    ["log", null, expect.stringContaining("GRANT SELECT")],
  ]);
  await sql(
    "update item set v = 'new' where id = 1; delete from item where id = 2; insert into log values ('b')",
  );
  await until("the changes", () => rowsOf(receiver, "item").length === 2);
  expect(rowsOf(receiver, "item")[0]).not.toContainKey("big");

  await life.kill();
  await sql(
    "update item set v = 'newer' where id = 3; insert into item values (50, 'new', 'b'); insert into log values ('c')",
  );
  life = await start();
  await until("the other changes", () => rowsOf(receiver, "item").length >= 4);
  await sql("grant select on item, log to late_reader");
  const isCopied = (name: string) => {
    const stored = parseRecord(store.record!);
    return stored.kind === "begun" && (stored.record.copied.get(name)?.lsn ?? 0n) > 0n;
  };
  await until("the copies", () => ["public.item", "public.log"].every(isCopied));
  await until("the word of it", () => life.setAside?.length === 0);
  await sql("update item set v = 'last' where id = 50; insert into log values ('d')");
  const expected = await sql("select id, v, big from item where id <> 50 order by id");
  const last = { id: 50, v: "last", big: "b" };
  await until("the last change", () => rowsOf(receiver, "log").some(({ v }) => v === "d"));
  await until("the last update", () => rowsOf(receiver, "item").some(({ v }) => v === "last"));
  expect(heldOf(receiver)).toEqual([...expected, last]);
  const lines = rowsOf(receiver, "log").map(({ v }) => v);
  expect(lines.toSorted()).toEqual(["a", "a", "b", "c", "d"]);
  await life.stop();
  // The status still shows what the last run told: another run says that it is over.
  life = await start();
  await until("the stream", () => life.phase === "realtime");
  expect(life.setAside).toEqual([]);
  await life.stop();
}, 60_000);
