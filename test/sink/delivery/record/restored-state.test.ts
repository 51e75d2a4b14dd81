// How far a webhook has come is in millrace's state. If that was restored from a backup, the slot stands ahead of it.

import { afterAll, expect, test } from "bun:test";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookStage } from "../../../support/webhook/webhook-stage.ts";

const server = await PostgresServer.start({ settings: { fsync: "off" } });
afterAll(() => server[Symbol.asyncDispose]());

test("the reason names the state, and no command that is refused", async () => {
  const sql = "create table m (id int primary key); insert into m values (1)";
  await using stage = await WebhookStage.create(server, "restored_state", sql);
  await stage.start();
  await stage.untilRealtime();
  await stage.life.stop();
  const backup = stage.store.record;
  await stage.start();
  await stage.untilRealtime();
  await stage.sql("insert into m select g from generate_series(2, 50) g");
  await waitFor("the rows", () => stage.receiver.requests.length > 1);
  await stage.life.stop();
  stage.store.record = backup;
  await stage.start();
  const failure = await waitFor("the refusal", () => stage.life.failure);
  expect(failure).toMatchObject({ code: "slot_ahead" });
  expect(String(failure)).toContain("millrace's state");
  expect(String(failure)).toContain("ReInitialize");
  expect(String(failure)).not.toContain("Resume");
});
