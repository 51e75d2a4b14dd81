// A connector is made in a real browser: by keyboard alone, refused at its fields, and not lost by a step back.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type AddressInfo, createServer } from "node:net";
import type { ConsoleStage } from "../support/browser/console-stage.ts";
import {
  goTo,
  heading,
  openForm,
  reach,
  secret,
  storedConnector,
  typeConnection,
  unexpected,
} from "../support/browser/edit-form.ts";
import { fieldValue, fillField, pasteInto, press, textOf } from "../support/browser/form.ts";
import { FormStage, formStageMs } from "../support/browser/form-stage.ts";
import { focused, pressAt } from "../support/browser/keyboard.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let forms: FormStage;
let server: PostgresServer;
let stage: ConsoleStage;

beforeAll(async () => {
  forms = await FormStage.start();
  ({ server, console: stage } = forms);
}, formStageMs);

afterAll(async () => {
  await forms?.[Symbol.asyncDispose]();
});

describe("a new connector", () => {
  test("is made by keyboard alone, and its rows arrive", async () => {
    await using opened = await openForm(stage, "/console/new");
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
    await typeConnection(page, "source", server.connection("shop"));
    await pressAt(page, "Run the tests");
    await page.waitForSelector(".passed", { timeout: 15_000 });
    const inFocus = await page.evaluate("document.activeElement.textContent");
    expect(inFocus).toBe("Run them again");
    expect(await textOf(page, '[aria-busy] [role="status"]')).not.toContain("failure");
    await pressAt(page, "Next: the sink");
    await reach(page, "Sink");
    expect(await focused(page)).toBe("Sink");
    await typeConnection(page, "sink", server.connection("warehouse"));
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
    await using opened = await openForm(stage, "/console/new?from=shop&step=review");
    const { page } = opened;
    await waitFor("a free id", async () => (await fieldValue(page, "/id")) === "shop-2");
    await fillField(page, "/id", "shop");
    await waitFor("the error", async () => (await textOf(page)).includes("Another connector has this id"));
    await pressAt(page, "Create the connector");
    await waitFor("the focus", async () => (await focused(page)) === "/id");
    expect(await page.$eval('[name="/id"]', (field) => field.getAttribute("aria-invalid"))).toBe("true");
    expect(Object.keys((await storedConnector(stage, "shop")).sink)).toEqual(["postgres"]);
    expect(unexpected(opened)).toEqual([]);
  });

  test("shows the API's refusals at their fields, in the step where they are", async () => {
    await using opened = await openForm(stage, "/console/new?from=shop&step=sink");
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

  test("shows the tables of the connection that was corrected, though the former one's are still asked for", async () => {
    // It accepts connections, and says nothing.
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    await using opened = await openForm(stage, "/console/new");
    const { page } = opened;
    const { port } = silent.address() as AddressInfo;
    await typeConnection(page, "source", { ...server.connection("shop"), port });
    await goTo(page, "tables");
    await waitFor("the question", async () => (await textOf(page)).includes("Asking the source"));
    await goTo(page, "source");
    await reach(page, "Source");
    await fillField(page, "/source/postgres/connection/port", String(server.connection("shop").port));
    await goTo(page, "tables");
    await page.waitForSelector(".tree-row", { timeout: 15_000 });
    expect(await textOf(page)).not.toContain("does not show its tables");
    silent.close();
  }, 60_000);

  test("takes a connection's address apart that is pasted", async () => {
    await using opened = await openForm(stage, "/console/new");
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

  test("takes a connection's address apart that is typed, when the field is left", async () => {
    await using opened = await openForm(stage, "/console/new");
    const { page } = opened;
    const host = "/source/postgres/connection/host";
    await fillField(page, host, "postgresql://me:word@db.example.com:6543/shop");
    await page.keyboard.press("Tab");
    await waitFor("the host", async () => (await fieldValue(page, host)) === "db.example.com");
    const rest = ["port", "database", "user", "password"].map((name) => host.replace("host", name));
    const values: string[] = [];
    for (const name of rest) values.push(await fieldValue(page, name));
    expect(values).toEqual(["6543", "shop", "me", "word"]);
  });

  test("keeps what was typed while one goes to and fro, and asks before it is lost", async () => {
    await using opened = await openForm(stage, "/console/new");
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
  await using opened = await stage.open("/");
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

test("whoever may only read is told so, and sees no form", async () => {
  const readToken = "may-only-look";
  await using guarded = await stage.another({ MILLRACE_API_TOKEN: secret, MILLRACE_READ_TOKEN: readToken });
  await using opened = await stage.chromium.open(guarded.url, "/console/new");
  await fillField(opened.page, "secret", readToken);
  await opened.page.keyboard.press("Enter");
  await waitFor("the notice", async () => (await textOf(opened.page)).includes("You may only read"));
  expect(await opened.page.$(".steps")).toBeNull();
}, 30_000);
