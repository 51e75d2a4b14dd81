// The page of one connector in a real browser, served by the compiled program, over real Postgres servers.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { violationsOf } from "../support/browser/accessibility.ts";
import type { Chromium } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { loaded } from "../support/browser/loaded.ts";
import type { PageOptions } from "../support/browser/look.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const oddSchema = 'Sch "é" مرحبا';
const oddTable = `<b>x</b> 😀 שלום & '"' ${"a".repeat(29)}`;
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

let server: PostgresServer;
let service: ServiceProcess;
let chromium: Chromium;
let stage: ConsoleStage;
let api: ApiClient;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "warehouse"]) await server.createDatabase(name);
  await server.query(
    `create table orders (id int primary key, item text); insert into orders values (7, 'tea');
     create table strict (id int primary key, amount int); insert into strict values (1, 1);
     create schema ${quoted(oddSchema)}; create table ${quoted(oddSchema)}.${quoted(oddTable)} (id int primary key)`,
    "shop",
  );
  stage = await ConsoleStage.start();
  ({ service, chromium, api } = stage);
  await api.createConnector("orders", connectorTo("warehouse"));
  await waitFor("the stream", async () => "realtime" in (await api.connector("orders")).status.state);
}, 180_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** No change of a table is allowed at the sink. */
function connectorTo(database: string) {
  const connection = { ...server.connection("shop"), ssl_mode: "Prefer" };
  return {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: {
      postgres: {
        connection: { ...connection, database },
        migration_strategy: { allowed: [], disable_all: true },
      },
    },
  };
}

const open = (tab: string, options?: PageOptions, id = "orders") =>
  chromium.open(service.url, `/console/connectors/${id}${tab && `/${tab}`}`, options);

const shows = (page: Page, text: string) =>
  waitFor(`the page to show ${text}`, async () =>
    ((await page.$eval("main", (main) => main.textContent)) ?? "").includes(text),
  );

/** Presses the button of this name, as somebody does who uses the keyboard alone. */
async function press(page: Page, name: string): Promise<void> {
  const button = await page.waitForSelector(`xpath///button[normalize-space(.)="${name}"]`, {
    visible: true,
  });
  await button!.focus();
  await page.keyboard.press("Enter");
}

const tabs = ["", "tables", "tasks", "history", "doctor", "configuration"];

describe.each(tabs)("the tab %p", (tab) => {
  test("breaks no rule of access, and fits on a phone", async () => {
    await holdsInEveryLook((look) => open(tab, look), loaded);
  });
});

test("a stop is asked about; the buttons are those of the state, and the focus stays among them", async () => {
  await using opened = await open("");
  const { page } = opened;
  await press(page, "Stop");
  await shows(page, "keep its log");
  await press(page, "Cancel");
  expect((await api.connector("orders")).status.state).toHaveProperty("realtime");
  await press(page, "Stop");
  await page.waitForSelector("dialog[open]");
  await page.click("dialog .button.primary");
  await shows(page, "Stopped");
  await waitFor("the focus", async () => (await page.$(".actions :focus")) !== null);
  await press(page, "Start");
  await shows(page, "Streaming changes");
  expect(opened.complaints).toEqual([]);
});

test("a table that is set aside comes first, with the SQL that mends it", async () => {
  await server.query(
    "alter table strict alter column amount type text; insert into strict values (2, 'x')",
    "shop",
  );
  await using opened = await open("tables");
  const { page } = opened;
  await shows(page, "needs you");
  const sql = await page.$eval(".set-aside pre", (pre) => pre.textContent ?? "");
  expect(await page.$eval(".table-row:not(.table-head) .badge", (badge) => badge.textContent)).toBe(
    "Set aside",
  );
  await server.query(sql, "warehouse");
  await waitFor("the table to go on", async () => (await page.$(".set-aside")) === null);
  expect(opened.complaints).toEqual([]);
});

test("a table of any name is found, shown as it is, and copied again", async () => {
  await using opened = await open(`tables?find=${encodeURIComponent("<b>")}`);
  const { page } = opened;
  await page.waitForSelector(".table-row:not(.table-head) .strong");
  const names = await page.$$eval(".table-row .name", (found) => found.map((name) => name.textContent));
  expect(names).toEqual([oddSchema, oddTable]);
  await page.click('.table-row .do button[aria-label^="Copy again"]');
  await press(page, "Start the copy");
  await shows(page, "is asked for");
  await page.click(".notice a");
  await shows(page, oddTable);
  await waitFor("the copy", async () =>
    page.$eval(".task .badge", (badge) => badge.textContent === "Done").catch(() => false),
  );
  expect(opened.complaints).toEqual([]);
});

test("the doctor looks when told to, and the worst comes first", async () => {
  await using opened = await open("doctor");
  const { page } = opened;
  expect(await page.$(".finding")).toBeNull();
  await press(page, "Look now");
  await page.waitForSelector(".finding");
  const words = await page.$$eval(".finding .badge", (found) => found.map((badge) => badge.textContent));
  const order = ["Failed", "Warning", "Fine"];
  const ranks = words.map((word) => order.indexOf(word ?? ""));
  expect(ranks).toEqual(ranks.toSorted());
  expect(await violationsOf(page)).toEqual([]);
  expect(opened.complaints).toEqual([]);
});

test("one that does not exist, and one that is deleted while somebody looks", async () => {
  await using unknown = await open("", {}, "nothing");
  await shows(unknown.page, "There is no such connector");
  await api.createConnector("short", { ...connectorTo("warehouse"), disabled: true });
  await using opened = await open("history", {}, "short");
  await shows(opened.page, "Disabled");
  await press(opened.page, "More ▾");
  await press(opened.page, "Delete");
  await shows(opened.page, "tables stay with their rows");
  await opened.page.click("dialog .button.danger");
  await shows(opened.page, "The connector is gone");
  // The browser itself says that the page asked for one that is not there: it does so once.
  const notFound = "Failed to load resource: the server responded with a status of 404 (Not Found)";
  expect(unknown.complaints).toEqual([notFound]);
  expect(opened.complaints.filter((complaint) => complaint !== notFound)).toEqual([]);
});
