// What is parked, in a real browser: looked at, sent again and discarded.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import { ApiClient } from "../../src/demo/api-client.ts";
import { fillField, press, textOf } from "../support/browser/form.ts";
import { loaded } from "../support/browser/loaded.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { ParkingStage } from "../support/browser/parking-stage.ts";
import { waitFor } from "../support/wait-for.ts";

let stage: ParkingStage;

beforeAll(async () => {
  stage = await ParkingStage.start();
  await stage.parkRows("hooks");
}, 240_000);
afterAll(() => stage?.[Symbol.asyncDispose]());

const items = (page: Page) => page.$$eval(".task", (all) => all.map((item) => item.textContent ?? ""));
const ofKey = (does: string, id: number) => `[aria-label='${does}: {"id":${id}}']`;

async function showBody(page: Page): Promise<void> {
  await loaded(page);
  await press(page, ofKey("Show the body", 8));
  await page.waitForSelector(".command pre");
}

test("the list tells of each message why it is there and what was answered, and its body when asked", async () => {
  await using opened = await stage.open("hooks", "parked");
  const { page } = opened;
  await waitFor("the list", async () => (await items(page)).length === 3);
  const [seven = "", eight = "", behind = ""] = (await items(page)).toSorted((one, other) =>
    one.startsWith("waits") ? 1 : other.startsWith("waits") ? -1 : one.includes('"id":7') ? -1 : 1,
  );
  for (const text of [seven, eight]) {
    expect(text).toStartWith("refused");
    expect(text).toContain('answered 422 {"error":"no such item: bad"}');
    expect(text).not.toContain("bad milk");
  }
  expect(behind).toStartWith("waits behind another");
  expect(behind).toContain('public.orders {"id":7}');
  expect(behind).toContain("It was not tried");
  await showBody(page);
  expect(await textOf(page, ".command pre")).toContain("bad milk");
  await press(page, ofKey("Hide the body", 8));
  await waitFor("the body to be gone", async () => (await page.$(".command")) === null);
  expect(opened.complaints).toEqual([]);
});

test("list, body and question break no rule of access, and fit on a phone", async () => {
  await holdsInEveryLook((look) => stage.open("hooks", "parked", look), showBody);
  await holdsInEveryLook(
    (look) => stage.open("hooks", "parked", look),
    async (page) => {
      await press(page, ofKey("Discard", 8));
      await page.waitForSelector("dialog[open]");
    },
  );
});

test("a discard says before what it does, and a retry sends the rest in its order", async () => {
  await using opened = await stage.open("hooks", "parked");
  const { page } = opened;
  await press(page, ofKey("Discard", 8));
  await page.waitForSelector("dialog[open]");
  const question = await textOf(page, "dialog");
  expect(question).toContain('public.orders {"id":8}');
  expect(question).toContain("never sent");
  expect((await stage.parked("hooks")).length).toBe(3);
  await press(page, "dialog .button.danger");
  await waitFor("the list", async () => (await items(page)).length === 2);

  stage.refused = /nothing/;
  await press(page, ".row.apart .button.normal");
  await page.waitForSelector("dialog[open]");
  expect(await textOf(page, "dialog")).toContain("go in their order");
  await press(page, "dialog .button.primary");
  await waitFor("the list to be empty", async () => (await textOf(page)).includes("Nothing is parked."));
  const sent = stage.receiver.delivered.map(({ body }) => body).filter((body) => body.includes("tea"));
  expect(sent.map((body) => body.includes("bad tea"))).toEqual([true, false]);
  expect(await stage.parked("hooks")).toEqual([]);
  expect(opened.complaints).toEqual([]);
});

test("whoever may only read sees the list, and no action or body", async () => {
  const environment: Record<string, string> = {};
  await using service = await stage.console.another(environment);
  stage.refused = /bad/;
  await stage.write("truncate orders");
  await stage.parkRows("guarded", new ApiClient(service.url));
  await service.stop();
  Object.assign(environment, {
    MILLRACE_API_TOKEN: "full-0123456789",
    MILLRACE_READ_TOKEN: "read-0123456789",
  });
  await service.launch();
  await using opened = await stage.console.chromium.open(service.url, "/console/connectors/guarded/parked");
  const { page } = opened;
  await fillField(page, "secret", "read-0123456789");
  await page.keyboard.press("Enter");
  await waitFor("the list", async () => (await items(page)).length === 3);
  expect(await textOf(page)).toContain("You may only read");
  expect(await page.$$("main section button")).toEqual([]);
  expect(opened.complaints.filter((text) => !/status of 401/.test(text))).toEqual([]);
}, 60_000);

test("a discard of all names their number, and leaves what is parked meanwhile", async () => {
  stage.refused = /bad/;
  await stage.write("truncate orders");
  await stage.parkRows("bulk");
  await using opened = await stage.open("bulk", "parked");
  const { page } = opened;
  const title = async () => (await textOf(page, "dialog h2")).replaceAll(/\s/g, " ");
  await waitFor("the list", async () => (await items(page)).length === 3);
  await press(page, ".row.apart .button.danger");
  await page.waitForSelector("dialog[open]");
  expect(await title()).toBe("Discard 3 messages");
  await stage.write("insert into orders values (10, 'bad jam')");
  await waitFor("one more", async () => (await stage.parked("bulk")).length === 4);
  // The page has asked for the list again meanwhile: the question stays the one that was asked.
  await waitFor("the list behind the question", async () => (await items(page)).length === 4);
  expect(await title()).toBe("Discard 3 messages");
  await press(page, "dialog .button.danger");
  await waitFor("the list", async () => (await items(page)).length === 1);
  expect((await stage.parked("bulk")).map(({ keys }) => keys)).toEqual([[{ id: 10 }]]);
  expect(opened.complaints).toEqual([]);
});

test("a connector to Kafka has the tab, too, and the one for rows", async () => {
  const connection = { ...stage.server.connection("shop"), ssl_mode: "Prefer" };
  await stage.console.api.createConnector("messages", {
    disabled: true,
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: {
      kafka: {
        connection: { brokers: ["127.0.0.1:1"] },
        format: { native: {} },
        topic_options: {},
        on_exhausted: { park: {} },
      },
    },
  });
  await using opened = await stage.open("messages", "parked");
  const { page } = opened;
  await waitFor("the list", async () => (await textOf(page)).includes("Nothing is parked."));
  const tabs = await page.$$eval(".tabs a", (all) => all.map((tab) => tab.textContent));
  expect(tabs).toContain("Parked");
  expect(tabs).toContain("Find a row");
  expect(opened.complaints).toEqual([]);
});
