// A connector whose slot was dropped goes on from the console, in a real browser.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import { press, textOf } from "../support/browser/form.ts";
import { FormStage, formStageMs } from "../support/browser/form-stage.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { waitFor } from "../support/wait-for.ts";

let stage: FormStage;

beforeAll(async () => {
  stage = await FormStage.start();
  const { api } = stage.console;
  const connection = { ...stage.server.connection("shop"), ssl_mode: "Prefer" };
  await api.createConnector("orders", {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { postgres: { connection: { ...connection, database: "warehouse" } } },
  });
  await streaming();
  await api.command("orders", "Stop");
  await waitFor("the stop", async () => "shutdown" in (await status()).state);
  await stage.server.query("select pg_drop_replication_slot('millrace_orders')", "shop");
  await stage.server.query(
    "update orders set item = 'coffee'; insert into orders values (8, 'milk')",
    "shop",
  );
  await api.command("orders", "Start");
  await waitFor("the failure", async () => (await status()).status.failed !== undefined);
}, formStageMs);
afterAll(() => stage?.[Symbol.asyncDispose]());

const status = async () => (await stage.console.api.connector("orders")).status;
const streaming = () =>
  waitFor("the stream", async () => "realtime" in (await status()).state, { timeoutMs: 60_000 });
const open = (look?: object) => stage.console.open("/console/connectors/orders", look);
const orders = (database: string) =>
  stage.server.query("select id::text, item from orders order by id", database);

async function ask(page: Page): Promise<void> {
  await waitFor(
    "the button",
    async () => (await textOf(page, ".actions .primary").catch(() => "")) === "Resume and repair",
  );
  await press(page, ".actions .primary");
  await page.waitForSelector("dialog[open]");
}

test("the question breaks no rule of access, and fits on a phone", async () => {
  await holdsInEveryLook(open, ask);
});

test("the button says before what it does, and makes both sides equal", async () => {
  await using opened = await open();
  const { page } = opened;
  await ask(page);
  const words = await textOf(page, "dialog");
  expect(words).toContain("Resume and repair: orders");
  expect(words).toContain("The slot is made again");
  expect(words).toContain("rows that differ are copied or removed");
  await page.keyboard.press("Escape");
  await waitFor("the question to be gone", async () => (await page.$("dialog[open]")) === null);
  expect((await status()).status.failed).toBeDefined();
  expect(await textOf(page)).toContain("Resume and repair makes another slot");
  await ask(page);
  await press(page, "dialog .button.primary");
  await streaming();
  const source = await orders("shop");
  expect(source.length).toBe(2);
  await waitFor("both sides to be equal", async () => Bun.deepEquals(await orders("warehouse"), source));
  await waitFor("the page", async () => (await textOf(page)).includes("Streaming changes"));
  expect((await page.$$(".actions .primary")).length).toBe(0);
  expect(opened.complaints).toEqual([]);
}, 60_000);
