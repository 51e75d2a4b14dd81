// A copy that ends before its rows have gone: what is left comes with the next life, and what comes again is known again.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { heldByVersion } from "../../../support/oracles/webhook-oracles.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";
import { WebhookStage } from "../../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

test.each([
  ["whole", 1_000_000_000, 50],
  ["whole, with rows in no request", 1_000_000_000, 175],
  ["in ranges", 1, 50],
] as const)(
  "one that is broken off amid what waits for room is not made: %s",
  async (name, dividedFromBytes, max_buffer_rows) => {
    const sql = `create table m (id int primary key, v text); create table slow (id int primary key, v text);
    insert into m select g, repeat(md5(g::text), 4) from generate_series(1, 2000) g; insert into slow select * from m`;
    await using stage = await WebhookStage.create(server, `hook_broken_${name.replace(/\W/g, "_")}`, sql, {
      copyPace: { dividedFromBytes },
      limits: { snapshot: { max_buffer_rows } },
    });
    stage.receiver.script = ({ path }) => {
      return { kind: "answer", status: 200, delayMs: path.endsWith("/slow") ? 800 : 150 };
    };
    await stage.start();
    await waitFor("some rows", () => stage.receiver.requests.length >= 4);
    await stage.life.breakOff();
    stage.receiver.script = () => undefined;
    await stage.start();
    await stage.untilRealtime();
    await stage.expectHeld(() => heldByVersion(stage.receiver, "m"));
  },
);

test("of a table that nobody writes to, what comes again after a death has the keys that it had", async () => {
  const sql =
    "create table m (id int primary key, v text); insert into m select g, repeat(md5(g::text), 8) from generate_series(1, 12000) g";
  const copyPace = { rangeBytes: 2_000_000, firstRangeBytes: 50_000 };
  await using stage = await WebhookStage.create(server, "hook_again", sql, { copyPace });
  stage.receiver.script = () => ({ kind: "answer", status: 200, delayMs: 5 });
  await stage.start();
  await waitFor("some ranges", () => stage.receiver.requests.length > 110, { intervalMs: 1 });
  await stage.life.kill();
  const before = stage.receiver.requests.length;
  await stage.start();
  await stage.untilRealtime();
  const keys = stage.receiver.requests.map(({ headers }) => headers["idempotency-key"]);
  const known = new Set(keys.slice(0, before));
  expect(keys.slice(before).some((key) => known.has(key))).toBe(true);
  const ids = WebhookReceiver.rows(stage.receiver.deduplicated).map(({ id }) => id);
  expect(ids.length).toBe(12_000);
  expect(new Set(ids).size).toBe(12_000);
});
