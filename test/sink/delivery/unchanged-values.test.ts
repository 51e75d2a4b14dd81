// Values that are stored out of line and that a change leaves as they are, at a webhook: from a real server, in both formats.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { WebhookSinkRequest } from "../../../src/connector/config/webhook-config.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { slotRelease } from "../../support/servers/slot-release.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
}, 30_000);
afterAll(() => server[Symbol.asyncDispose]());

type Row = Record<string, unknown>;

/** What a receiver holds that takes each row's columns over what it had of that key. */
function held(receiver: WebhookReceiver, read: (row: Row) => { key: Row; columns: Row | null }) {
  const rows = new Map<string, Row>();
  for (const { path, body } of receiver.deduplicated) {
    for (const row of JSON.parse(body) as Row[]) {
      const { key, columns } = read(row);
      const name = `${path.slice(1)} ${String(key.k)}`;
      if (columns === null) rows.delete(name);
      else rows.set(name, { ...rows.get(name), ...columns });
    }
  }
  return rows;
}

function native({ _sm_version: _, _sm_deleted: isDeleted, ...columns }: Row) {
  return { key: columns, columns: isDeleted ? null : columns };
}

function debezium({ before, after }: Row) {
  return { key: (after ?? before) as Row, columns: (after ?? null) as Row | null };
}

async function source(database: string): Promise<Map<string, Row>> {
  const rows = new Map<string, Row>();
  for (const table of ["whole", "part"]) {
    for (const { row } of await server.query<{ row: Row }>(
      `select row_to_json(t) as row from ${table} t`,
      database,
    )) {
      rows.set(`public/${table} ${String(row.k)}`, row);
    }
  }
  return rows;
}

const sorted = (map: Map<string, unknown>) => [...map].toSorted(([a], [b]) => (a < b ? -1 : 1));

test.each<[string, WebhookSinkRequest["format"] & object, typeof native]>([
  ["native", { native: {} }, native],
  ["debezium", { debezium: {} }, debezium],
])(
  "are filled from the old row, or left out, in %s format",
  async (name, format, read) => {
    const database = `unchanged_${name}`;
    await server.createDatabase(database);
    const table = (of: string) =>
      `create table ${of} (k text primary key, n int, big text); alter table ${of} alter k set storage external; alter table ${of} alter big set storage external;
     insert into ${of} select repeat(chr(96 + g), 2500), g, repeat('b', 5000) || g from generate_series(1, 9) g`;
    await server.query(
      `${table("whole")}; alter table whole replica identity full; ${table("part")}`,
      database,
    );
    await using receiver = await WebhookReceiver.start();
    const connector = webhookConnector(receiver.url, { format, batch: { max_batch_size: 2 } });
    const life = await WebhookLife.start(server.connection(database), connector, new RecordStore(), {
      yes: false,
    });
    await waitFor("the stream", () => life.phase === "realtime");
    for (const of of ["whole", "part"]) {
      await server.query(
        `update ${of} set n = n + 10; update ${of} set n = n + 10 where n < 15; delete from ${of} where n = 19;
       update ${of} set big = 'small' where n = 18; delete from ${of} where n = 17; insert into ${of} values (repeat('g', 2500), 7, 'again')`,
        database,
      );
    }
    // The new row under another key has the large value as well.
    await server.query(
      "update whole set k = 'moved' || n where n > 20; update whole set n = -n where k like 'moved%'",
      database,
    );
    const expected = sorted(await source(database));
    await waitFor("the receiver to hold the source", () =>
      Bun.deepEquals(sorted(held(receiver, read)), expected),
    ).catch(() => {});
    const found = sorted(held(receiver, read));
    expect(found.map(([key]) => key.slice(0, 20))).toEqual(expected.map(([key]) => key.slice(0, 20)));
    expect(Bun.deepEquals(found, expected)).toBe(true);
    await life.stop();
    await slotRelease(server, `millrace_${database}`);
    await server.query(`select pg_drop_replication_slot('millrace_${database}')`, database);
  },
  60_000,
);
