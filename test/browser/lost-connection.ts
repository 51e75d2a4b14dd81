// What the console shows while the service does not answer, or a proxy keeps its events back; and that it comes back by itself.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import type { Chromium } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { textOf } from "../support/browser/form.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { ManyConnectors, states } from "../support/browser/many-connectors.ts";
import { StagedService } from "../support/browser/staged-service.ts";
import { waitFor } from "../support/wait-for.ts";

let service: ServiceProcess;
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
}, 180_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
});

const link = (page: Page, state: string, timeoutMs = 10_000) =>
  waitFor(
    state,
    async () => {
      const shown = await page.$eval(".link-state", (found) => found.textContent);
      if (shown !== state) throw new Error(`it shows ${shown}`);
      return true;
    },
    { timeoutMs },
  );

/** Ways in which a service goes, and comes again. */
const ways = {
  "that hangs": {
    go: () => void process.kill(service.pid!, "SIGSTOP"),
    come: () => void process.kill(service.pid!, "SIGCONT"),
  },
  "that is killed": { go: () => service.kill(), come: () => service.launch() },
};

describe.each(Object.entries(ways))("a service %s", (_name, { go, come }) => {
  test.each(["/", "/console/connectors/sleeper"])(
    "is said to be away on %s, which stays, and comes back by itself",
    async (path) => {
      await using opened = await chromium.open(service.url, path);
      const { page } = opened;
      await link(page, "Live");
      await waitFor("the connector", async () => (await textOf(page)).includes("sleeper"));
      try {
        await go();
        await link(page, "Not connected", 8_000);
        expect(await textOf(page)).toContain("Disabled");
      } finally {
        await come();
      }
      await link(page, "Live", 8_000);
      expect(await textOf(page)).toContain("Disabled");
    },
    60_000,
  );
});

describe("a service that hangs while the page asks who is there", () => {
  function hanging() {
    const staged = new StagedService(service.url);
    const held: ((response: Response) => void)[] = [];
    staged.override = (path) =>
      path === "/session" ? new Promise<Response>((resolve) => held.push(resolve)) : null;
    const release = () => {
      staged.override = null;
      for (const resolve of held) resolve(Response.json({ access: "Full" }));
    };
    return { staged, held, release };
  }

  test("leaves a page that says so, and comes when it answers", async () => {
    const { staged, release } = hanging();
    await using _ = staged;
    await using opened = await chromium.open(staged.url, "/");
    const { page } = opened;
    expect(await textOf(page)).toContain("Loading…");
    await waitFor("the page to say so", async () => (await textOf(page)).includes("does not answer yet"), {
      timeoutMs: 5_000,
    });
    release();
    await page.waitForSelector(".connector-row", { timeout: 5_000 });
    expect(opened.complaints).toEqual([]);
  }, 30_000);

  test("is asked again, one request at a time, and found when it answers", async () => {
    const { staged, held, release } = hanging();
    await using _ = staged;
    await using opened = await chromium.open(staged.url, "/");
    const { page } = opened;
    const cannot = async () => (await textOf(page)).includes("cannot be used now");
    await waitFor("the failure", cannot, { timeoutMs: 15_000 });
    expect(await textOf(page)).toContain("The service does not answer.");
    await waitFor("one more request", () => held.length === 2, { timeoutMs: 5_000 });
    await Bun.sleep(5_000);
    expect(held.length).toBe(2);
    release();
    await page.waitForSelector(".connector-row", { timeout: 5_000 });
  }, 60_000);

  test("breaks no rule of access", async () => {
    const { staged } = hanging();
    await using _ = staged;
    await holdsInEveryLook(
      (look) => chromium.open(staged.url, "/", look),
      (page) => page.waitForSelector("main h1"),
    );
  }, 60_000);
});

test.each(["/", "/console/connectors/sleeper"])(
  "a service without its state says so itself, on %s",
  async (path) => {
    await using staged = new StagedService(service.url);
    const detail = "The state cannot be reached: connection refused.";
    staged.override = (asked) =>
      asked.startsWith("/connectors")
        ? Response.json({ code: "state_unavailable", detail }, { status: 503 })
        : null;
    await using opened = await chromium.open(staged.url, path);
    const { page } = opened;
    await link(page, "Not working");
    await waitFor("the reason", async () => (await textOf(page)).includes(detail));
    expect(await page.$eval(".link-state", (found) => found.getAttribute("title"))).toStartWith(detail);
    staged.override = null;
    await link(page, "Live");
    expect(await textOf(page)).toContain("sleeper");
  },
  60_000,
);

describe("a proxy that keeps the events back", () => {
  test("leaves statuses right within six seconds, and the page says how it gets them", async () => {
    const connectors = new ManyConnectors(3);
    await using staged = new StagedService(service.url, connectors);
    staged.events = "swallowed";
    await using opened = await chromium.open(staged.url, "/");
    const { page } = opened;
    await link(page, "Every 5 s");
    const badges = () => page.$$eval(".connector-row .badge", (all) => all.map((badge) => badge.textContent));
    await waitFor("the list", async () => (await badges()).length === 3);
    for (const [state, word] of [
      ["failed", "Failed"],
      ["stopped", "Stopped"],
    ] as const) {
      connectors.set("c-0001", states[state]!);
      await waitFor(word, async () => (await badges()).includes(word), { timeoutMs: 6_000 });
    }
    await link(page, "Every 5 s");
    expect(opened.complaints).toEqual([]);
  }, 60_000);
});

test("pages that are left, and tabs in the background, keep no connection from the one that is seen", async () => {
  await using opened = await chromium.open(service.url, "/");
  const { page } = opened;
  for (let load = 0; load < 8; load++) {
    await page.goto(service.url + (load % 2 === 0 ? "/console/service" : "/"));
    await page.waitForSelector(".shell h1", { timeout: 3_000 });
    await link(page, "Live");
  }
  for (let tab = 0; tab < 8; tab++) {
    const other = await page.browserContext().newPage();
    await other.goto(service.url);
    await other.waitForSelector(".shell h1", { timeout: 3_000 });
    await link(other, "Live");
  }
  await page.bringToFront();
  await page.click(".main-nav a");
  await link(page, "Live");
  expect(opened.complaints).toEqual([]);
}, 60_000);

test("a lost connection breaks no rule of access", async () => {
  await using staged = new StagedService(service.url, new ManyConnectors(3));
  const lose = async (page: Page) => {
    await link(page, "Live");
    staged.isAway = true;
    await link(page, "Not connected");
  };
  await holdsInEveryLook(
    (look) => chromium.open(staged.url, "/", look),
    lose,
    (complaint) => complaint.includes("502"),
  );
}, 60_000);
