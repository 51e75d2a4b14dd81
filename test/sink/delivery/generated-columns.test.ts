// Generated columns at a webhook: sent where the stream brings them too, and otherwise not in copies either, as a receiver
// would keep old values.

import { expect, test } from "bun:test";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

const table = `create table t (id int primary key, n int, s int generated always as (n * 2) stored);
  insert into t values (1, 1), (2, 2)`;

test.each([
  [17, "id, n"],
  [18, "id, n, s"],
])("of PostgreSQL %i: %s", async (major, columns) => {
  await using server = await PostgresServer.start({ major, settings: { fsync: "off" } });
  await server.createDatabase("generated");
  const source = (sql: string) => server.query<Record<string, unknown>>(sql, "generated");
  await source(table);
  await using receiver = await WebhookReceiver.start();
  const life = await WebhookLife.start(
    server.connection("generated"),
    webhookConnector(receiver.url, {}),
    new RecordStore(),
    { yes: false },
  );
  const rows = () => {
    const held = new Map<unknown, Record<string, unknown>>();
    for (const { body } of receiver.deduplicated) {
      for (const row of [JSON.parse(body)].flat() as Record<string, unknown>[]) {
        const { _sm_version: _, _sm_deleted: isDeleted, ...values } = row;
        if (isDeleted) held.delete(row.id);
        else held.set(row.id, values);
      }
    }
    return [...held.values()].toSorted((a, b) => Number(a.id) - Number(b.id));
  };
  const expectHeld = async () => {
    const wanted = await source(`select ${columns} from t order by id`);
    await waitFor("the receiver to hold the source", () => Bun.deepEquals(rows(), wanted)).catch(() => {});
    expect(rows()).toEqual(wanted);
  };
  await waitFor("the stream", () => life.phase === "realtime");
  await expectHeld();
  await source("insert into t values (3, 3); update t set n = 9 where id = 1; delete from t where id = 2");
  await expectHeld();
  if (major < 18) {
    // What was left out is an ordinary column now: the rows that were there are sent again with it.
    await source("alter table t alter s drop expression");
    const wanted = await source("select id, n, s from t order by id");
    await waitFor("the column", () => Bun.deepEquals(rows(), wanted)).catch(() => {});
    expect(rows()).toEqual(wanted);
  }
  if (major >= 18) {
    // Added while rows stream: those that were there are sent again with it.
    await source(
      "alter table t add column m int generated always as (n * 3) stored; insert into t values (4, 4)",
    );
    const wanted = await source("select id, n, s, m from t order by id");
    await waitFor("the new column", () => Bun.deepEquals(rows(), wanted)).catch(() => {});
    expect(rows()).toEqual(wanted);
  }
  await life.stop();
});
