// The table gets another key before the incomplete rows of its copy are read: their keys name no rows any more.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { movingRows } from "../../support/loads/moving-rows.ts";
import { heldInOrder, rowsOf } from "../../support/oracles/webhook-oracles.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookStage } from "../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

test.each([
  ["nothing happens", "select 1"],
  ["the table gets another key", "alter table m drop constraint m_pkey, add primary key (id, n)"],
])("the receiver gets whole rows, though before they are read %s", async (_, sql) => {
  await using stage = await WebhookStage.create(server, `hook_key_${_.length}`, movingRows("m", 60), {});
  await stage.start();
  await stage.untilRealtime();
  const { receiver, life, database } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  receiver.requests.length = 0;
  const held = Promise.withResolvers<void>();
  life.copiesHeld = held.promise;
  const before = life.copies.length;
  const task = life.snapshot(database, "m");
  await waitFor("the copy to be read", () => life.copies.length > before);
  await stage.sql("update m set n = 1");
  await waitFor("the changes", () => rowsOf(receiver, "m").filter(({ n }) => n === 1).length === 60);
  life.beforePoint = async () => {
    life.beforePoint = async () => {};
    await stage.sql(sql);
  };
  held.resolve();
  const failure = await task;
  // The task may find the table altered before its rows are read.
  expect(["none", "table_changed"]).toContain(failure === null ? "none" : (failure as MillraceError).code);
  await stage.sql("insert into m values (1000, 1, 'x', 'y')");
  await waitFor("1000", () => rowsOf(receiver, "m").some(({ id }) => id === 1000));
  const whole = () =>
    new Set(
      rowsOf(receiver, "m")
        .filter((row) => typeof row.far === "string" && row.far.length > 100)
        .map(({ id }) => id),
    );
  await waitFor("whole rows", () => whole().size === 60);
});

test("a column that a key's index only includes is no part of the row's key", async () => {
  const sql = `create table m (id int, v text, primary key (id) include (v)); alter table m replica identity full;
    insert into m values (1, 'x')`;
  await using stage = await WebhookStage.create(server, "hook_including", sql, {});
  await stage.start();
  await stage.untilRealtime();
  await stage.sql("update m set v = 'y'");
  await waitFor("the change", () => rowsOf(stage.receiver, "m").some(({ v }) => v === "y"));
  expect(rowsOf(stage.receiver, "m").map(({ id, v }) => [id, v])).toEqual([
    [1, "x"],
    [1, "y"],
  ]);
});

test.each([
  [
    "by another index",
    "id int primary key, code int not null unique, v text",
    "replica identity using index m_code_key",
  ],
  ["as a whole by a key that it gets", "id int not null, code int, v text", "add primary key (id)"],
  [
    "by a key whose text is another",
    "id numeric(12, 0) primary key, code int, v text",
    "alter id type numeric(12, 2)",
  ],
])("a row that is told apart %s from here on does not overtake itself", async (_, columns, alteration) => {
  await using stage = await WebhookStage.create(
    server,
    `hook_apart_${alteration.length}`,
    `create table m (${columns})`,
    {
      sink: { batch: { max_batch_size: 1 } },
    },
  );
  await stage.sql("alter table m replica identity full; insert into m values (1, 1, 'first')");
  if (alteration.startsWith("replica")) await stage.sql("alter table m replica identity default");
  await stage.start();
  await stage.untilRealtime();
  const { receiver } = stage;
  let isAway = true;
  receiver.script = ({ body }) => (isAway && body.includes("second") ? 503 : 200);
  await stage.sql("update m set v = 'second'");
  await waitFor("the refusal", () => receiver.requests.some(({ body }) => body.includes("second")));
  await stage.sql(`alter table m ${alteration}`);
  await stage.sql("update m set v = 'third'; insert into m values (2, 2, 'another')");
  await Bun.sleep(500);
  isAway = false;
  const delivered = () =>
    receiver.delivered.map(({ body }) => /second|third|another/.exec(body)?.[0]).filter(Boolean);
  await waitFor("all", () => delivered().includes("another") && delivered().includes("third"));
  await waitFor("the second", () => delivered().includes("second"));
  expect(delivered()).toEqual(["second", "third", "another"]);
});
