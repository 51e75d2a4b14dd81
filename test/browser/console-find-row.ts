// What became of a row, asked in a real browser.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import { press, replaceText, textOf } from "../support/browser/form.ts";
import { loaded } from "../support/browser/loaded.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { ParkingStage } from "../support/browser/parking-stage.ts";
import { waitFor } from "../support/wait-for.ts";

let stage: ParkingStage;

beforeAll(async () => {
  stage = await ParkingStage.start();
  await stage.parkRows("hooks");
  const path = `/api/v1/connectors/hooks/explain?table=orders&key=${encodeURIComponent('{"id":9}')}`;
  await waitFor("the receipt", async () => {
    const response = await stage.console.api.request("GET", path);
    return ((await response.json()) as { state?: string }).state === "Delivered";
  });
}, 240_000);
afterAll(() => stage?.[Symbol.asyncDispose]());

async function find(page: Page, key: string, table = "orders"): Promise<void> {
  await loaded(page);
  await replaceText(page, "table", table);
  await replaceText(page, "key", key);
  await press(page, "form [type=submit]");
}

const finds = (page: Page, word: string) =>
  waitFor(word, async () => (await textOf(page, "section [role=status] .badge").catch(() => "")) === word);
const isRefusal = (complaint: string) => /status of 422/.test(complaint);

test("a row that was delivered, one that is parked, and one of which nothing is known", async () => {
  await using opened = await stage.open("hooks", "rows");
  const { page } = opened;
  await find(page, '{"id":9}');
  await finds(page, "Delivered");
  expect(await textOf(page, ".task")).toContain("insert, answered 200");
  // The answer names its row: another key may stand in the form by now.
  await replaceText(page, "key", '{"id":10}');
  expect(await textOf(page, "section [role=status]")).toContain('public.orders {"id":9}');
  await find(page, '{"id":10}');
  await finds(page, "Unknown");
  expect(await page.$(".task")).toBeNull();
  await find(page, '{"id":7}');
  await finds(page, "Parked");
  expect(await textOf(page, "section")).toContain("answered 422");
  await press(page, "section [role=status] a");
  await waitFor("what is parked", async () => (await textOf(page, "h2")) === "Parked");
  expect(opened.complaints).toEqual([]);
});

test("a key or a table that is wrong is told at its field, which gets the focus", async () => {
  await using opened = await stage.open("hooks", "rows");
  const { page } = opened;
  const wrong: readonly (readonly [field: string, key: string, table: string])[] = [
    ["key", "id = 7", "orders"],
    ["key", '{"number":7}', "orders"],
    ["table", '{"id":7}', "nothing"],
  ];
  for (const [field, key, table] of wrong) {
    await find(page, key, table);
    const selector = `[name=${field}][aria-invalid=true]`;
    await page.waitForSelector(selector);
    await waitFor("the focus", async () => (await page.$(`${selector}:focus`)) !== null);
    expect((await textOf(page, ".field .error")).length).toBeGreaterThan(10);
    expect(await page.$("[role=alert]")).toBeNull();
  }
  await find(page, '{"id":9}');
  await finds(page, "Delivered");
  expect(await page.$("[aria-invalid]")).toBeNull();
  expect(opened.complaints.filter((text) => !isRefusal(text))).toEqual([]);
});

test("what was found, and what is wrong, break no rule of access, and fit on a phone", async () => {
  await holdsInEveryLook(
    (look) => stage.open("hooks", "rows", look),
    async (page) => {
      await find(page, '{"id":7}');
      await finds(page, "Parked");
    },
  );
  await holdsInEveryLook(
    (look) => stage.open("hooks", "rows", look),
    async (page) => {
      await find(page, "id = 7");
      await page.waitForSelector("[aria-invalid]");
    },
    isRefusal,
  );
});
