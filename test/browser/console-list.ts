// The list of connectors as somebody uses it who looks for what is wrong: rows stay under the pointer, a reason can be read to its end,
// the lag of a receiver that is away grows, and the page scrolls. Staged, so that states change when the test says so.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import { violationsOf } from "../support/browser/accessibility.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { ManyConnectors, states } from "../support/browser/many-connectors.ts";
import { StagedService } from "../support/browser/staged-service.ts";
import { waitFor } from "../support/wait-for.ts";

const reason = `Sink db.example.com:5432: ${"the server refused the connection ".repeat(6)}as its disk is full`;

let stage: ConsoleStage;

beforeAll(async () => {
  stage = await ConsoleStage.start();
}, 180_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
});

const idsOf = (page: Page) =>
  page.$$eval(".connector-row .who a", (links) => links.map((link) => link.textContent ?? ""));
const first = async (page: Page) => (await idsOf(page))[0];
const detail = (page: Page) =>
  page.$eval(".connector-row .detail p", (text) => ({
    text: text.textContent,
    isWhole: text.scrollHeight <= text.clientHeight,
  }));

async function opened(count: number) {
  const connectors = new ManyConnectors(count);
  const staged = new StagedService(stage.service.url, connectors);
  const open = await stage.chromium.open(staged.url, "/");
  await waitFor("the list", async () => (await idsOf(open.page)).length > 0);
  await waitFor("events", async () => staged.followers > 0);
  return {
    connectors,
    staged,
    page: open.page,
    complaints: open.complaints,
    [Symbol.asyncDispose]: async () => {
      await open[Symbol.asyncDispose]();
      await staged[Symbol.asyncDispose]();
    },
  };
}

test("rows stay while the pointer is over them, and for some seconds after; they move when asked to", async () => {
  await using list = await opened(9);
  const { page, staged, connectors } = list;
  const badge = () => page.$$eval(".connector-row .badge", (all) => all.map((one) => one.textContent));
  await page.hover(".connector-row");
  staged.send([connectors.set("c-0005", states.failed!)]);
  await waitFor("the state", async () => (await badge())[5] === "Failed");
  expect(await first(page)).toBe("c-0000");
  await page.waitForSelector(".old-order button");
  expect(await violationsOf(page)).toEqual([]);
  await page.mouse.move(5, 5);
  await Bun.sleep(2_000);
  expect(await first(page)).toBe("c-0000");
  await waitFor("the new order", async () => (await first(page)) === "c-0005");
  await page.hover(".connector-row");
  staged.send([connectors.set("c-0005", states.streaming!)]);
  await page.waitForSelector(".old-order button");
  await page.click(".old-order button");
  await waitFor("the order of now", async () => (await first(page)) === "c-0000");
  expect(list.complaints).toEqual([]);
}, 40_000);

test("rows stay while the focus is among them", async () => {
  await using list = await opened(5);
  const { page, staged, connectors } = list;
  await page.focus(".connector-row .who a");
  staged.send([connectors.set("c-0003", states.failed!)]);
  await page.waitForSelector(".old-order button");
  expect(await first(page)).toBe("c-0000");
});

test("a long reason is cut after two lines, and whole under the pointer and with the focus", async () => {
  await using list = await opened(3);
  const { page, staged, connectors } = list;
  staged.send([
    connectors.set("c-0000", { ...states.streaming!, status: { retry: { attempt: 7, reason } } }),
  ]);
  await page.waitForSelector(".detail");
  expect(await detail(page)).toEqual({ text: reason, isWhole: false });
  await page.hover(".connector-row .detail p");
  await waitFor("all of it", async () => (await detail(page)).isWhole);
  await page.keyboard.press("Escape");
  await waitFor("two lines", async () => !(await detail(page)).isWhole);
  await page.mouse.move(5, 5);
  await page.focus("input[type=search]");
  await page.keyboard.press("Tab");
  await waitFor("all of it, by keyboard", async () => (await detail(page)).isWhole);
  expect(await violationsOf(page)).toEqual([]);
});

test("the page scrolls, and no list in it, whatever their number", async () => {
  await using list = await opened(40);
  const { page } = list;
  const boxes = await page.$$eval("main *", (all) =>
    all
      .filter(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight + 30)
      .map(({ className }) => className),
  );
  expect(boxes.filter((name) => String(name).includes("rows"))).toEqual([]);
  await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)");
  await waitFor("the last row", async () => (await idsOf(page)).at(-1) === "c-0039");
  expect(await page.$eval(".foot", (foot) => foot.getBoundingClientRect().top < 900)).toBe(true);
});
