// The form of a connector in a real browser: created by keyboard alone, edited without its secrets, and refused at its fields.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { violationsOf } from "../support/browser/accessibility.ts";
import type { Chromium, OpenedPage } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import {
  fieldValue,
  fillField,
  pasteInto,
  press,
  replaceText,
  textOf,
  unfoldAll,
} from "../support/browser/form.ts";
import { focused, pressAt, tabTo, typeInto } from "../support/browser/keyboard.ts";
import type { PageOptions } from "../support/browser/look.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const secret = "planted-secret-9f2c";
const readToken = "may-only-look";
const hostile = ['we "quote" & <b>mark</b> 😀', "שלום עולם", "x".repeat(63)];

let server: PostgresServer;
let service: ServiceProcess;
let chromium: Chromium;
let stage: ConsoleStage;
let api: ApiClient;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "warehouse", "big"]) await server.createDatabase(name);
  await server.query("create table orders (id int primary key, item text)", "shop");
  await server.query("insert into orders values (7, 'tea')", "shop");
  await server.query("create table customers (id int primary key, email text, note text)", "shop");
  for (const name of hostile) await server.query(`create table ${quoted(name)} (id int primary key)`, "shop");
  const many = "execute format('create table t_%s (id int primary key)', lpad(i::text, 4, '0'))";
  await server.query(
    `do $$ begin for i in 1..5000 loop ${many}; if i % 500 = 0 then commit; end if; end loop; end $$`,
    "big",
  );
  stage = await ConsoleStage.start();
  ({ service, chromium, api } = stage);
}, 240_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
const connection = (database: string) => ({
  ...server.connection(database),
  password: secret,
  ssl_mode: "Prefer",
});
const open = (path: string, options?: PageOptions) => chromium.open(service.url, path, options);

async function openForm(path: string, options?: PageOptions): Promise<OpenedPage> {
  const opened = await open(path, options);
  await opened.page.waitForSelector(".steps");
  return opened;
}

/** Refusals are part of the form's life; the browser tells of each. */
const isRefusal = (complaint: string) => /status of 4(04|09|22)/.test(complaint);
const unexpected = ({ complaints }: OpenedPage) => complaints.filter((text) => !isRefusal(text));
const heading = (page: Page) => page.$eval(".edit-step h2", (title) => title.textContent);
const reach = (page: Page, title: string) => waitFor(title, async () => (await heading(page)) === title);
const goTo = (page: Page, step: string) => press(page, `.steps a[href*="step=${step}"]`);

async function typeConnection(page: Page, side: "source" | "sink", database: string): Promise<void> {
  const at = `/${side}/postgres/connection`;
  const { host, port, user } = server.connection(database);
  for (const [key, value] of Object.entries({ host, port, database, user, password: secret }))
    await typeInto(page, `${at}/${key}`, String(value));
}

async function storedConnector(id: string) {
  return (await api.connector(id)).connector as unknown as { readonly source: object; readonly sink: object };
}

describe("a new connector", () => {
  test("is made by keyboard alone, and its rows arrive", async () => {
    await using opened = await openForm("/console/new");
    const { page } = opened;
    await pressAt(page, "Next: the sink");
    await waitFor(
      "the first field",
      async () => (await focused(page)) === "/source/postgres/connection/host",
    );
    const missing = await page.$$eval('[aria-invalid="true"]', (fields) =>
      fields.map((field) => field.getAttribute("name")),
    );
    expect(missing.map((name) => name?.split("/").at(-1))).toEqual(["host", "database", "user", "password"]);
    await page.keyboard.down("Shift");
    await page.keyboard.press("Tab");
    await page.keyboard.up("Shift");
    await typeConnection(page, "source", "shop");
    await pressAt(page, "Run the tests");
    await page.waitForSelector(".passed", { timeout: 15_000 });
    expect(await textOf(page, '[aria-busy] [role="status"]')).not.toContain("failure");
    await pressAt(page, "Next: the sink");
    await reach(page, "Sink");
    expect(await focused(page)).toBe("Sink");
    await typeConnection(page, "sink", "warehouse");
    await pressAt(page, "Next: the tables");
    await reach(page, "Tables");
    await page.waitForSelector(".tree-row");
    await pressAt(page, "Next: review");
    await reach(page, "Review");
    expect(await fieldValue(page, "/id")).toBe("shop");
    expect(await page.content()).not.toContain(secret);
    await pressAt(page, "Create the connector");
    await waitFor("the connector's page", async () => page.url().endsWith("/console/connectors/shop"));
    await waitFor("the rows", async () => {
      const rows = await server.query("select item from orders", "warehouse").catch(() => []);
      return rows.length === 1;
    });
    expect(unexpected(opened)).toEqual([]);
  }, 60_000);

  test("whose id is taken is refused at the field, and replaces nothing", async () => {
    await using opened = await openForm("/console/new?from=shop&step=review");
    const { page } = opened;
    await waitFor("a free id", async () => (await fieldValue(page, "/id")) === "shop-2");
    await fillField(page, "/id", "shop");
    await waitFor("the error", async () => (await textOf(page)).includes("Another connector has this id"));
    await pressAt(page, "Create the connector");
    await waitFor("the focus", async () => (await focused(page)) === "/id");
    expect(await page.$eval('[name="/id"]', (field) => field.getAttribute("aria-invalid"))).toBe("true");
    expect(Object.keys((await storedConnector("shop")).sink)).toEqual(["postgres"]);
    expect(unexpected(opened)).toEqual([]);
  });

  test("shows the API's refusals at their fields, in the step where they are", async () => {
    await using opened = await openForm("/console/new?from=shop&step=sink");
    const { page } = opened;
    await page.waitForSelector(".kind");
    await press(page, ".kind input", 2);
    await fillField(page, "/sink/kafka/connection/brokers", "nowhere");
    await goTo(page, "review");
    await reach(page, "Review");
    await pressAt(page, "Create the connector");
    await waitFor("the field", async () => (await focused(page)) === "/sink/kafka/connection/brokers");
    expect(await heading(page)).toBe("Sink");
    expect(await textOf(page, ".edit-step")).toContain("1: ");
    expect(unexpected(opened)).toEqual([]);
  });

  test("takes a connection's address apart that is pasted", async () => {
    await using opened = await openForm("/console/new");
    const { page } = opened;
    const address = "postgres://me:word@db.example.com:6543/shop";
    await pasteInto(page, "/source/postgres/connection/host", address);
    await waitFor(
      "the host",
      async () => (await fieldValue(page, "/source/postgres/connection/host")) !== "",
    );
    expect(await fieldValue(page, "/source/postgres/connection/host")).toBe("db.example.com");
    expect(await fieldValue(page, "/source/postgres/connection/port")).toBe("6543");
    expect(await fieldValue(page, "/source/postgres/connection/user")).toBe("me");
  });

  test("keeps what was typed while one goes to and fro, and asks before it is lost", async () => {
    await using opened = await openForm("/console/new");
    const { page } = opened;
    await fillField(page, "/source/postgres/connection/host", "db1");
    await goTo(page, "sink");
    await reach(page, "Sink");
    await press(page, ".kind input", 1);
    await fillField(page, "/sink/webhook/url", "https://a.example");
    await press(page, ".kind input");
    await press(page, ".kind input", 1);
    await page.waitForSelector('[name="/sink/webhook/url"]');
    expect(await fieldValue(page, "/sink/webhook/url")).toBe("https://a.example");
    await page.goBack();
    await reach(page, "Source");
    expect(await fieldValue(page, "/source/postgres/connection/host")).toBe("db1");
    await press(page, ".brand");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await waitFor("the form", async () => (await page.$("dialog")) === null);
    expect(await fieldValue(page, "/source/postgres/connection/host")).toBe("db1");
    await press(page, ".brand");
    await page.waitForSelector("dialog[open] .danger");
    await press(page, "dialog .danger");
    await page.waitForSelector(".connector-row");
    expect(unexpected(opened)).toEqual([]);
  });
});

test("the browser's back button asks, too, and the form stays until then", async () => {
  await using opened = await open("/");
  const { page } = opened;
  await press(page, 'a[href="/console/new"]');
  await fillField(page, "/source/postgres/connection/host", "db1");
  await page.goBack();
  await page.waitForSelector("dialog[open]");
  expect(new URL(page.url()).pathname).toBe("/console/new");
  expect(await fieldValue(page, "/source/postgres/connection/host")).toBe("db1");
  await press(page, "dialog .danger");
  await waitFor("the list", async () => new URL(page.url()).pathname === "/");
  expect(unexpected(opened)).toEqual([]);
});

describe("tables", () => {
  test("of any name are chosen by keyboard, with their columns", async () => {
    await using opened = await openForm("/console/new?from=shop&step=tables");
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
          ...{ name: "public", action: "Include" },
          tables: [
            {
              ...{ name: "customers", action: "Include" },
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
    await using opened = await openForm("/console/new");
    const { page } = opened;
    await typeConnection(page, "source", "big");
    await goTo(page, "tables");
    await page.waitForSelector(".tree-row", { timeout: 15_000 });
    expect((await page.$$(".tree-row")).length).toBeLessThan(60);
    await page.focus('.tree-row[tabindex="0"]');
    await page.keyboard.press("End");
    await waitFor("the last table", async () => (await focused(page)).startsWith("t_5000"));
    await page.type('input[type="search"]', "t_499");
    await waitFor("what is found", async () => (await page.$$(".tree-row.table")).length === 10);
    expect(await textOf(page, ".card [role=status]")).toContain("found tables are carried");
    expect(unexpected(opened)).toEqual([]);
  }, 30_000);
});

describe("editing", () => {
  const webhook = {
    ...{ url: "http://127.0.0.1:9/hook", auth: { bearer: { token: secret } } },
    headers: { static_: [{ name: "X-Api-Key", value: secret }] },
    retry: { max_retries: 7 },
  };
  const unknownToTheForm = { cdc: { flush_interval_ms: 50 }, snapshot: { max_buffer_rows: 1234 } };

  beforeAll(async () => {
    await api.createConnector("hook", {
      ...{ disabled: true, limits: unknownToTheForm },
      source: { postgres: { connection: connection("shop"), replication_type: { logical_replication: {} } } },
      sink: { webhook },
    });
  });

  test("changes what was changed, keeps secrets, and shows none", async () => {
    await using opened = await openForm("/console/connectors/hook/edit?step=sink");
    const { page } = opened;
    const before = await storedConnector("hook");
    const url = await page.waitForSelector('[name="/sink/webhook/url"]');
    expect(await url?.evaluate((field) => field.hasAttribute("readonly"))).toBe(true);
    expect(await textOf(page)).toContain("cannot change");
    expect(await textOf(page)).toContain("set, and kept");
    await goTo(page, "review");
    await reach(page, "Review");
    expect(await textOf(page)).toContain("Nothing is changed yet.");
    await goTo(page, "sink");
    await reach(page, "Sink");
    await unfoldAll(page);
    await fillField(page, "/sink/webhook/retry/max_retries", "9");
    await goTo(page, "review");
    await reach(page, "Review");
    expect(await textOf(page, ".changes")).toBe("/sink/webhook/retry/max_retries7 →  becomes 9");
    expect(await page.content()).not.toContain(secret);
    await pressAt(page, "Save the changes");
    await waitFor("the connector's page", async () => page.url().endsWith("/console/connectors/hook"));
    const after = await storedConnector("hook");
    expect(after).toEqual(JSON.parse(JSON.stringify(before).replace('"max_retries":7', '"max_retries":9')));
    expect(unexpected(opened)).toEqual([]);
  });

  test("as JSON is in step with the form, and does not lose a secret", async () => {
    await using opened = await openForm("/console/connectors/hook/edit?step=json");
    const { page } = opened;
    const text = await fieldValue(page, "/");
    expect(text).not.toContain(secret);
    const edit = (next: string) => replaceText(page, "/", next);
    await edit("{");
    await waitFor("the error", async () => (await textOf(page)).includes("no JSON yet"));
    await edit(text.replace('"name": null', '"name": "Hooks"'));
    await goTo(page, "review");
    await reach(page, "Review");
    expect(await fieldValue(page, "/name")).toBe("Hooks");
    expect(await textOf(page, ".changes")).toBe("/namenothing →  becomes Hooks");
    expect(unexpected(opened)).toEqual([]);
  });

  test("what cannot change is cloned, with its secrets", async () => {
    await using opened = await openForm("/console/connectors/hook/edit?step=source");
    const { page } = opened;
    await pressAt(page, "Clone this connector");
    await waitFor("the clone", async () => page.url().endsWith("/console/new?from=hook"));
    await page.waitForSelector('[name="/source/postgres/connection/host"]:not([readonly])');
    await goTo(page, "sink");
    await reach(page, "Sink");
    await fillField(page, "/sink/webhook/url", "http://127.0.0.1:9/other");
    await goTo(page, "review");
    await reach(page, "Review");
    await pressAt(page, "Create the connector");
    await waitFor("the connector's page", async () => page.url().endsWith("/console/connectors/hook-2"));
    const { source, sink } = await storedConnector("hook-2");
    expect(sink).toMatchObject({
      webhook: { url: "http://127.0.0.1:9/other", auth: { bearer: { token: "***" } } },
    });
    expect(source).toMatchObject({ postgres: { connection: { password: "***" } } });
    expect(unexpected(opened)).toEqual([]);
  });

  test("an unknown connector is said to be unknown", async () => {
    await using opened = await open("/console/connectors/nobody/edit");
    await waitFor("the failure", async () => (await textOf(opened.page)).includes("did not come"));
  });
});

test("whoever may only read is told so, and sees no form", async () => {
  await using guarded = await stage.another({ MILLRACE_API_TOKEN: secret, MILLRACE_READ_TOKEN: readToken });
  await using opened = await chromium.open(guarded.url, "/console/new");
  await fillField(opened.page, "secret", readToken);
  await opened.page.keyboard.press("Enter");
  await waitFor("the notice", async () => (await textOf(opened.page)).includes("You may only read"));
  expect(await opened.page.$(".steps")).toBeNull();
}, 30_000);

describe("every step breaks no rule of access", () => {
  test.each(["source", "sink", "tables", "review", "json"])(
    "%s",
    async (step) => {
      for (const path of [
        `/console/new?from=shop&step=${step}`,
        `/console/connectors/hook/edit?step=${step}`,
      ])
        await holdsInEveryLook(
          (look) => openForm(path, look),
          async (page) => {
            if (step === "tables") await page.waitForSelector(".tree-row");
            await unfoldAll(page);
          },
          isRefusal,
        );
    },
    60_000,
  );

  test("nor does the form with its errors", async () => {
    await using opened = await openForm("/console/new");
    await tabTo(opened.page, "Next: the sink");
    await opened.page.keyboard.press("Enter");
    await opened.page.waitForSelector('[aria-invalid="true"]');
    expect(await violationsOf(opened.page)).toEqual([]);
  });
});
