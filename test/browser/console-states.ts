// Every state in which a reader may meet a connector, with its menus and dialogs open; and how soon each page is there.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import type { Chromium } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { loaded } from "../support/browser/loaded.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { ManyConnectors, states } from "../support/browser/many-connectors.ts";
import { StagedService } from "../support/browser/staged-service.ts";

let service: ServiceProcess;
let staged: StagedService;
let chromium: Chromium;
let stage: ConsoleStage;

beforeAll(async () => {
  stage = await ConsoleStage.start();
  ({ service, chromium } = stage);
  const connection = { host: "127.0.0.1", port: 9, user: "u", password: "p", database: "d" };
  await stage.api.createConnector("sleeper", {
    disabled: true,
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { webhook: { url: "http://127.0.0.1:9/" } },
  });
  const connectors = new ManyConnectors(0);
  for (const [id, status] of Object.entries(states)) connectors.set(id, status);
  staged = new StagedService(service.url, connectors);
  staged.override = (path) => {
    if (path.endsWith("/tables")) return Response.json({ tables: [] });
    return path.endsWith("/tasks") ? Response.json([]) : null;
  };
}, 180_000);

afterAll(async () => {
  await staged?.[Symbol.asyncDispose]();
  await stage?.[Symbol.asyncDispose]();
});

/** Presses the button of this name. */
async function press(page: Page, name: string): Promise<void> {
  const button = await page.waitForSelector(`xpath///button[starts-with(normalize-space(.), "${name}")]`, {
    visible: true,
  });
  await button?.click();
}

/** The connector, what is opened there, and by which buttons. */
const openings: readonly (readonly [path: string, opened: string, presses: readonly string[]])[] = [
  ...Object.keys(states).map((id) => [id, "main h1", []] as const),
  ["streaming", ".menu-items:not([hidden])", ["More"]],
  ["streaming", "dialog[open]", ["Stop"]],
  ["streaming", "dialog[open]", ["More", "Delete"]],
  ["streaming/tasks", "dialog[open]", ["Copy a table"]],
];

describe("breaks no rule of access", () => {
  test("the list of all states", async () => {
    await holdsInEveryLook(
      (look) => chromium.open(staged.url, "/", look),
      (page) => page.waitForSelector(".connector-row"),
    );
  });

  test.each(openings.map(([path, opened, presses]) => ({ path, opened, presses })))(
    "$path with $opened, after $presses",
    async ({ path, opened, presses }) => {
      await holdsInEveryLook(
        (look) => chromium.open(staged.url, `/console/connectors/${path}`, look),
        async (page) => {
          await loaded(page);
          for (const name of presses) await press(page, name);
          await page.waitForSelector(opened);
        },
      );
    },
  );
});

const tabs = ["", "/tables", "/tasks", "/history", "/doctor", "/configuration"];
const pages: readonly (readonly [path: string, useful: string])[] = [
  ["/", ".connector-row"],
  ["/console/service", "main h2"],
  ["/console/new", ".steps"],
  ["/console/connectors/sleeper/edit", ".steps"],
  ...tabs.map((tab) => [`/console/connectors/sleeper${tab}`, "main h2"] as const),
];

test.each(pages)("%s shows something useful within a second", async (path, useful) => {
  await using opened = await chromium.open(service.url, path);
  await opened.page.waitForSelector(useful);
  // Since the navigation began; a little after it was painted.
  const shownMs = await opened.page.evaluate(() => performance.now());
  console.log(`${path}: ${Math.round(shownMs)} ms`);
  expect(shownMs).toBeLessThan(1_000);
});
