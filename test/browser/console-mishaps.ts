// The console where something goes wrong: many tabs, credentials that change, answers that are not the service's.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page, ResponseForRequest } from "puppeteer-core";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { violationsOf } from "../support/browser/accessibility.ts";
import type { Chromium } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { fieldValue, fillField, press, textOf } from "../support/browser/form.ts";
import { StagedService } from "../support/browser/staged-service.ts";
import { waitFor } from "../support/wait-for.ts";

let stage: ConsoleStage;
let service: ServiceProcess;
let chromium: Chromium;
let api: ApiClient;

beforeAll(async () => {
  stage = await ConsoleStage.start();
  ({ service, chromium, api } = stage);
  await api.createConnector("orders", connector);
}, 180_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
});

/** It does not run: nothing has to be there. */
const connection = { host: "localhost", port: 1, user: "u", password: "p", database: "shop" };
const connector = {
  disabled: true,
  source: { postgres: { connection, replication_type: { logical_replication: {} } } },
  sink: { webhook: { url: "https://example.com/in" } },
};

const shows = (page: Page, text: string, selector = "main") =>
  waitFor(`the page to show ${text}`, async () =>
    (await textOf(page, selector).catch(() => "")).includes(text),
  );

test("ten tabs at once all load, and the one that is seen gets events", async () => {
  const context = await chromium.browser.createBrowserContext();
  try {
    const pages: Page[] = [];
    for (let count = 0; count < 10; count++) {
      const page = await context.newPage();
      pages.push(page);
      await page.goto(`${service.url}/console/connectors/orders`, { timeout: 10_000 });
      await page.waitForSelector(".shell h1", { timeout: 10_000 });
    }
    await pages[0]!.bringToFront();
    await shows(pages[0]!, "Live", ".link-state");
  } finally {
    await context.close();
  }
}, 60_000);

test("a form that is left by the back button does not come again with the next step back", async () => {
  await using opened = await chromium.open(service.url, "/");
  const { page } = opened;
  const back = () => page.evaluate("history.back()");
  await press(page, ".connector-row a");
  await press(page, ".actions a");
  await fillField(page, "/source/postgres/connection/user", "typed");
  await back();
  await page.waitForSelector("dialog[open]");
  expect(new URL(page.url()).pathname).toEndWith("/orders/edit");
  await press(page, "dialog .button.danger");
  await waitFor("the connector's page", async () => new URL(page.url()).pathname.endsWith("/orders"));
  await back();
  await waitFor("the list", async () => new URL(page.url()).pathname === "/");
  expect(opened.complaints).toEqual([]);
});

test("credentials that are no longer taken are asked for over what was typed, also over a question", async () => {
  const environment = { MILLRACE_API_TOKEN: "first" };
  await using changing = await stage.another(environment);
  {
    await using opened = await chromium.open(changing.url, "/console/new?step=sink");
    const { page } = opened;
    // A letter that no header can have must not end in a page that nobody gets out of.
    await fillField(page, "secret", "fïrst😀");
    await press(page, "[type=submit]");
    await shows(page, "These credentials are wrong");
    await fillField(page, "secret", "first");
    await press(page, "[type=submit]");
    await fillField(page, "/sink/postgres/connection/host", "typed.example");
    // A question that is open keeps everything behind it from being used.
    await press(page, ".brand");
    await page.waitForSelector("dialog[open]");
    await changing.stop();
    environment.MILLRACE_API_TOKEN = "second";
    await changing.launch();
    await shows(page, "Sign in again", "body");
    expect(await violationsOf(page)).toEqual([]);
    await waitFor("the dialogs", async () => (await page.$$("dialog[open]")).length === 2);
    // Whoever presses Escape does not mean to lose what was typed. The second time the browser closes it without asking.
    for (let times = 0; times < 3; times++) await page.keyboard.press("Escape");
    await waitFor("the dialogs", async () => (await page.$$("dialog[open]")).length === 2);
    await fillField(page, "secret", "second");
    await page.keyboard.press("Enter");
    await waitFor("the dialogs", async () => (await page.$$("dialog[open]")).length === 1);
    await page.keyboard.press("Escape");
    expect(await fieldValue(page, "/sink/postgres/connection/host")).toBe("typed.example");
    await shows(page, "Live", ".link-state");
  }
}, 90_000);

test("a question that is closed while its action runs tells that it failed all the same", async () => {
  await using staged = new StagedService(service.url);
  await using opened = await chromium.open(staged.url, "/console/connectors/orders");
  const { page } = opened;
  const refuse = Promise.withResolvers<Response>();
  staged.override = (path) => (path === "/connector/command/orders" ? refuse.promise : null);
  await shows(page, "Disabled");
  await press(page, ".actions .button.danger");
  await page.waitForSelector("dialog[open]");
  const buttons = () => page.$$eval("dialog .button", (all) => all.map((button) => button.textContent));
  expect(await buttons()).toEqual(["Delete", "Cancel"]);
  await press(page, "dialog .button.danger");
  await waitFor("the action", async () => (await buttons())[1] === "Close");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { hidden: true });
  refuse.resolve(Response.json({ code: "state_unavailable", detail: "The state is away." }, { status: 503 }));
  await shows(page, "Delete connector orders: that did not work");
  await shows(page, "The state is away.");
  expect(await violationsOf(page)).toEqual([]);
  await press(page, "[role=alert] .button");
  await waitFor("it to be gone", async () => (await page.$("[role=alert]")) === null);
}, 60_000);

test("a service that is stopped is seen at once, and so is its return", async () => {
  await using opened = await chromium.open(service.url, "/console/connectors/orders");
  const { page } = opened;
  const link = (word: string, timeoutMs: number) =>
    waitFor(
      `the page to be ${word}`,
      async () => (await textOf(page, ".link-state").catch(() => "")) === word,
      { timeoutMs },
    );
  await link("Live", 10_000);
  await service.stop();
  await link("Not connected", 3_000);
  expect(await textOf(page, "h1")).toBe("orders");
  await service.launch();
  await link("Live", 10_000);
}, 60_000);

test("a reason of any length and letters is shown as it is, and pushes nothing away", async () => {
  await using opened = await chromium.open(service.url, "/console/assets/icon.svg");
  const { page } = opened;
  const reason = `"><img src=x onerror=alert(1)> שלום 😀 ${"x".repeat(100_000)}`;
  const entry = await api.connector("orders");
  const status = { ...entry.status, state: { realtime: { name: "s" } }, status: { failed: { reason } } };
  const body = JSON.stringify({ ...entry, status });
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    const list = `{"connectors":[${body}]}`;
    if (pathname === "/api/v1/connectors") void request.respond(json(list));
    else if (pathname === "/api/v1/connectors/orders") void request.respond(json(body));
    else void request.continue();
  });
  await page.goto(`${service.url}/console/connectors/orders`);
  await shows(page, "<img src=x onerror=alert(1)> שלום 😀 xxx");
  expect((await page.$$("main img")).length).toBe(0);
  const [width, height] = await page.$eval("html", (html) => [html.scrollWidth, html.scrollHeight]);
  expect(width).toBeLessThanOrEqual(1_280);
  expect(height).toBeLessThan(4_000);
  await press(page, ".reason button");
  expect((await textOf(page)).length).toBeGreaterThan(100_000);
});

const json = (body: string) => ({ status: 200, contentType: "application/json", body });

/** Answers all that the page asks of the API, but whether somebody is signed in and which connectors there are. */
async function answerAll(page: Page, answer: Partial<ResponseForRequest>): Promise<void> {
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    const isKept =
      /\/(session|connectors|connectors\/orders)$/.test(pathname) || !pathname.startsWith("/api/");
    void (isKept ? request.continue() : request.respond(answer));
  });
}

describe("answers that are not the service's", () => {
  const places = ["/orders/tables", "/orders/tasks", "/orders/history"];
  test.each(places)("a page of a proxy is told at %s", async (place) => {
    await using opened = await chromium.open(service.url, "/console/assets/icon.svg");
    const { page } = opened;
    await answerAll(page, { status: 200, contentType: "text/html", body: "<h1>Log in</h1>" });
    await page.goto(`${service.url}/console/connectors${place}`);
    await shows(page, "Something between this browser and the service answered in its place");
    await shows(page, "Every 5 s", ".link-state");
    expect(opened.complaints.filter((complaint) => /Error/.test(complaint))).toEqual([]);
  });

  test("data of another form leaves a page that says so, and the way to others", async () => {
    await using opened = await chromium.open(service.url, "/console/assets/icon.svg");
    const { page } = opened;
    await answerAll(page, { status: 200, contentType: "application/json", body: "{}" });
    await page.goto(`${service.url}/console/connectors/orders/history`);
    await shows(page, "This page cannot be shown");
    await press(page, ".brand");
    await page.waitForSelector(".connector-row");
  });
});
