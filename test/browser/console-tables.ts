// The tables of a source are chosen in a real browser: of any name, and in their thousands.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import {
  goTo,
  openForm,
  reach,
  secret,
  sleeper,
  typeConnection,
  unexpected,
} from "../support/browser/edit-form.ts";
import { fieldValue, press, textOf } from "../support/browser/form.ts";
import { focused, pressAt } from "../support/browser/keyboard.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
let stage: ConsoleStage;

const hostile = ['we "quote" & <b>mark</b> 😀', "שלום עולם", "x".repeat(63)];
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.createDatabase("big");
  await server.createDatabase("shop");
  await server.query("create table orders (id int primary key, item text)", "shop");
  await server.query("create table customers (id int primary key, email text, note text)", "shop");
  for (const name of hostile) await server.query(`create table ${quoted(name)} (id int primary key)`, "shop");
  const many = "execute format('create table t_%s (id int primary key)', lpad(i::text, 4, '0'))";
  await server.query(
    `do $$ begin for i in 1..5000 loop ${many}; if i % 500 = 0 then commit; end if; end loop; end $$`,
    "big",
  );
  stage = await ConsoleStage.start();
  await stage.api.createConnector(
    "shop",
    sleeper(server, { postgres: { connection: { ...server.connection("warehouse"), password: secret } } }),
  );
}, 240_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

describe("tables", () => {
  test("of any name are chosen by keyboard, with their columns", async () => {
    await using opened = await openForm(stage, "/console/new?from=shop&step=tables");
    const { page } = opened;
    await page.waitForSelector(".tree-row");
    const names = await page.$$eval(".tree-row.table .tree-name", (rows) =>
      rows.map((row) => row.textContent ?? ""),
    );
    expect(new Set(names)).toEqual(new Set(["customers", "orders", ...hostile]));
    await page.focus('.tree-row[tabindex="0"]');
    for (const key of ["ArrowRight", "Space", "Space", "Enter"] as const) await page.keyboard.press(key);
    await page.waitForSelector("dialog[open]");
    expect(await textOf(page, "dialog h2")).toBe("Columns of public.customers");
    await press(page, '[aria-label="Carry note"]');
    await press(page, '[aria-label="Hash email"]');
    await page.keyboard.press("Escape");
    await waitFor("the tree", async () => (await focused(page)).startsWith("customers"));
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Space");
    await pressAt(page, "Next: review");
    await waitFor("the salt", async () => (await focused(page)).endsWith("/column_hashing/salt"));
    await page.keyboard.type(secret);
    await pressAt(page, "Next: review");
    await reach(page, "Review");
    await goTo(page, "json");
    await reach(page, "As JSON");
    const shown = JSON.parse(await fieldValue(page, "/"));
    expect(shown.source.postgres.catalog).toEqual({
      schemas: [
        {
          name: "public",
          action: "Include",
          tables: [
            {
              name: "customers",
              action: "Include",
              columns: [
                { name: "note", action: "Exclude" },
                { name: "email", hash: {} },
              ],
            },
            { name: "orders", action: "Exclude" },
          ],
        },
      ],
      column_hashing: { salt: "***" },
    });
    expect(unexpected(opened)).toEqual([]);
  });

  test("in their thousands are found, and scrolled without being drawn", async () => {
    await using opened = await openForm(stage, "/console/new");
    const { page } = opened;
    await typeConnection(page, "source", server.connection("big"));
    await goTo(page, "tables");
    await page.waitForSelector(".tree-row", { timeout: 15_000 });
    expect((await page.$$(".tree-row")).length).toBeLessThan(60);
    await page.focus('.tree-row[tabindex="0"]');
    // Here the bar of the step lies over the end of the tree.
    await page.setViewport({ width: 1280, height: 660 });
    await page.evaluate("scrollTo(0, 0)");
    await page.keyboard.press("End");
    await waitFor("the last table", async () => (await focused(page)).startsWith("t_5000"));
    const [row, bar] = [await page.$(".tree-row:focus"), await page.$(".step-footer")];
    const [seen, over] = [await row?.boundingBox(), await bar?.boundingBox()];
    expect((seen?.y ?? 0) + (seen?.height ?? 0)).toBeLessThanOrEqual(over?.y ?? 0);
    await page.type('input[type="search"]', "t_499");
    await waitFor("what is found", async () => (await page.$$(".tree-row.table")).length === 10);
    expect(await textOf(page, ".card [role=status]")).toContain("found tables are carried");
    expect(unexpected(opened)).toEqual([]);
  }, 30_000);
});
