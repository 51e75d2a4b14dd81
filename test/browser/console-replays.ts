// Rows are sent to a webhook again from the console, in a real browser.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { press, replaceText, textOf } from "../support/browser/form.ts";
import { loaded } from "../support/browser/loaded.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { rowsOf } from "../support/oracles/webhook-oracles.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

const stack = new AsyncDisposableStack();
let receiver: WebhookReceiver;
let stage: ConsoleStage;

beforeAll(async () => {
  const server = stack.use(await PostgresServer.start({ settings: { fsync: "off" } }));
  await server.createDatabase("shop");
  await server.query(
    "create table orders (id int primary key, v text); insert into orders values (7, 'seven'), (8, 'eight')",
    "shop",
  );
  receiver = stack.use(await WebhookReceiver.start());
  stage = stack.use(await ConsoleStage.start());
  const connection = { ...server.connection("shop"), ssl_mode: "Prefer" };
  const batch = { max_batch_size: 10 };
  await stage.api.createConnector("hooks", {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { webhook: { url: receiver.url, path_template: "{schema}/{table}", batch } },
  });
  await waitFor("the stream", async () => "realtime" in (await stage.api.connector("hooks")).status.state, {
    timeoutMs: 60_000,
  });
  await waitFor("the first copy", () => rowsOf(receiver, "orders").length === 2);
}, 240_000);
afterAll(() => stack.disposeAsync());

const open = (path: string) => stage.chromium.open(stage.service.url, `/console/connectors/hooks/${path}`);

test("a row is named by its key, and the task tells what was sent", async () => {
  await using opened = await open("tables");
  const { page } = opened;
  await press(page, '[aria-label="Send again: public.orders"]');
  await page.waitForSelector("dialog[open]");
  expect(await textOf(page, "dialog")).toContain("a version above all that it had");
  await replaceText(page, "keys", '{"id": 7}\nid = 8');
  await press(page, "dialog .button.primary");
  await waitFor("what is wrong", async () => (await textOf(page, "dialog")).includes("Line 2 is no key"));
  await replaceText(page, "keys", '{"id": 7}\n{"id": 9}');
  await press(page, "dialog .button.primary");
  await waitFor("the row", () => rowsOf(receiver, "orders").length === 3);
  expect(rowsOf(receiver, "orders").at(-1)).toMatchObject({ id: 7, v: "seven" });
  expect(opened.complaints).toEqual([]);
  await using tasks = await open("tasks");
  await waitFor("what was sent", async () => (await textOf(tasks.page)).includes("without a row"));
  expect((await textOf(tasks.page)).replaceAll(/\s/g, " ")).toContain("1 row sent, 1 key without a row");
});

test("the whole table is sent only where that is chosen, by a button that warns", async () => {
  await using opened = await open("tables");
  const { page } = opened;
  const before = rowsOf(receiver, "orders").length;
  await press(page, '[aria-label="Send again: public.orders"]');
  await page.waitForSelector("dialog[open]");
  await press(page, "dialog .button.primary");
  await waitFor("what is missing", async () => (await textOf(page, "dialog")).includes("Write the key"));
  const tasks = async () => (await stage.api.call<unknown[]>("GET", "/api/v1/connectors/hooks/tasks")).length;
  const asked = await tasks();
  await press(page, 'dialog [name="whole"]');
  await page.waitForSelector("dialog .button.danger");
  expect(await page.$("dialog .button.primary")).toBeNull();
  expect(await textOf(page, "dialog .button.danger")).toBe("Send the whole table");
  expect(await tasks()).toBe(asked);
  await press(page, "dialog .button.danger");
  await waitFor("all rows", () => rowsOf(receiver, "orders").length === before + 2);
  expect(opened.complaints).toEqual([]);
});

test("tables and tasks break no rule of access, and fit on a phone", async () => {
  for (const tab of ["tables", "tasks"])
    await holdsInEveryLook(
      (look) => stage.chromium.open(stage.service.url, `/console/connectors/hooks/${tab}`, look),
      loaded,
    );
});
