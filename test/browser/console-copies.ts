// What a connector's page says while its tables are copied: one that the sink refuses, for which all others wait, and a copy of which
// nobody knows how large it will be. Staged: the service says what the test has it say.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import type { ConnectorStatus, RunProgress } from "../../src/connector/status.ts";
import type { TableStatus } from "../../src/connector/table-status.ts";
import { violationsOf } from "../support/browser/accessibility.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { press, textOf } from "../support/browser/form.ts";
import { loaded } from "../support/browser/loaded.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { ManyConnectors } from "../support/browser/many-connectors.ts";
import { StagedService } from "../support/browser/staged-service.ts";
import { waitFor } from "../support/wait-for.ts";

const table = (name: string, more: Partial<TableStatus> = {}): TableStatus => ({
  schema: "public",
  name,
  state: "Waiting",
  rows_in: 0,
  history: false,
  ...more,
});
const sql = 'ALTER TABLE "public"."prices" ADD COLUMN "note" text;';
const why = "The table prices at the sink has no column note.";
const refused: readonly TableStatus[] = [
  table("orders"),
  table("prices", { reason: why, commands: [sql] }),
  table("logs", { state: "Excluded", reason: "The configuration leaves it out." }),
];

let stage: ConsoleStage;
let staged: StagedService;
let tables: readonly TableStatus[] = [];
const connectors = new ManyConnectors(0);

beforeAll(async () => {
  stage = await ConsoleStage.start();
  staged = new StagedService(stage.service.url, connectors);
  staged.override = (path) => (path.endsWith("/tables") ? Response.json({ tables }) : null);
}, 180_000);

afterAll(async () => {
  await staged?.[Symbol.asyncDispose]();
  await stage?.[Symbol.asyncDispose]();
});

/** Puts the connector `id` into a state of copying, with other figures of its copy. */
function copying(
  id: string,
  status: ConnectorStatus["status"],
  copy: Partial<RunProgress["snapshot"]>,
): void {
  const state = { snapshot: { name: "public.prices" } };
  connectors.set(id, { state, status });
  const entry = connectors.connectors.get(id)!;
  const progress = entry.status.progress!;
  const snapshot = { ...progress.snapshot, ...copy };
  connectors.connectors.set(id, {
    ...entry,
    status: { ...entry.status, progress: { ...progress, snapshot } },
  });
}

const shows = (page: Page, text: string) =>
  waitFor(`the page to show ${text}`, async () => (await textOf(page)).includes(text));
const count = (text: string, part: string) => text.split(part).length - 1;

test("the banner says which table all others wait for, and leads to the one place that says what to do", async () => {
  tables = refused.map((one) => (one.commands ? { ...one, reason: `${why} Run: ${sql}` } : one));
  copying("stuck", { retry: { attempt: 3, reason: `All tables wait for public.prices: ${why}` } }, {});
  await using opened = await stage.chromium.open(staged.url, "/console/connectors/stuck");
  const { page } = opened;
  await shows(page, "All tables wait for public.prices");
  expect(await textOf(page)).not.toContain(why);
  await page.click(".notice a");
  await shows(page, "All others wait for public.prices");
  expect(count(await textOf(page), why)).toBe(1);
  expect(count(await textOf(page), sql)).toBe(1);
  expect(await page.$$eval(".set-aside pre", (all) => all.map((one) => one.textContent))).toEqual([sql]);
  const rows = await page.$$eval(".table-row:not(.table-head)", (all) =>
    all.map((row) => row.textContent ?? ""),
  );
  expect(rows.map((row) => row.replace("public.", ""))).toEqual([
    ...["pricesNeeds you0 changes in–What to do", "ordersWaiting0 changes in–Copy now", "logsExcludedWhy?"],
  ]);
  await press(page, '[aria-label="What to do public.prices"]');
  await waitFor("the focus", async () => (await page.$(".needy:focus")) !== null);
  expect(await page.$("dialog")).toBeNull();
  expect(await violationsOf(page)).toEqual([]);
  expect(opened.complaints).toEqual([]);
});

test("the banner says so, too, where a change of the stream is refused", async () => {
  tables = [table("orders", { state: "Streaming" }), table("prices", { reason: why, commands: [sql] })];
  const retry = { attempt: 3, reason: why };
  connectors.set("streams", { state: { realtime: { name: "slot" } }, status: { retry } });
  await using opened = await stage.chromium.open(staged.url, "/console/connectors/streams");
  await shows(opened.page, "All tables wait for public.prices");
  expect(await textOf(opened.page)).not.toContain(why);
});

test("a copy without an estimate says what is known, and why there is no percentage", async () => {
  const rows = 12_300;
  tables = [table("prices", { state: "Copying", copy: { rows, bytes: 9, estimated_rows: rows } })];
  copying("unknown", { heartbeat: {} }, { tables: 1, tables_done: 0, rows, estimated_rows: 0 });
  await using opened = await stage.chromium.open(staged.url, "/console/connectors/unknown");
  const { page } = opened;
  await shows(page, "12\u202f300 rows so far");
  expect(await textOf(page)).toContain("never analysed");
  expect(await page.$eval(".card pre", (pre) => pre.textContent)).toBe("ANALYZE public.prices;");
  await press(page, '.tabs a[href$="/tables"]');
  await shows(page, "12\u202f300 rows so far, number not known");
  expect(await page.$(".table-row:not(.table-head) button")).toBeNull();
});

test("a copy whose rows are all read says that they are being written, and how far that is", async () => {
  const copy = { rows: 1_500_000, bytes: 9, estimated_rows: 1_500_000, rows_written: 600_000 };
  tables = [table("prices", { state: "Copying", copy: { ...copy, phase: "Writing" } })];
  const { rows } = copy;
  copying(
    "written",
    { heartbeat: {} },
    { tables: 1, tables_done: 0, rows, estimated_rows: 0, phase: "Writing" },
  );
  await using opened = await stage.chromium.open(staged.url, "/console/connectors/written");
  const { page } = opened;
  const words = "all 1\u202f500\u202f000 rows are read and being written into the table";
  await shows(page, words);
  expect(await textOf(page)).not.toContain("so far");
  await press(page, '.tabs a[href$="/tables"]');
  await shows(page, `40\u202f% · ${words}`);
  expect(opened.complaints).toEqual([]);
});

test("a copy whose first rows are read shows no speed", async () => {
  copying("reading", { heartbeat: {} }, { tables: 1, tables_done: 0, rows: 0, bytes: 0 });
  await using opened = await stage.chromium.open(staged.url, "/console/connectors/reading");
  await shows(opened.page, "0 of 1\u202ftable, reading");
  await Bun.sleep(6_000);
  const text = await textOf(opened.page, "section[aria-labelledby=copy-title]");
  expect(text).toContain("reading");
  expect(text).not.toContain("/s");
}, 20_000);

test.each(["stuck", "stuck/tables", "unknown"])("%s breaks no rule of access", async (path) => {
  tables = refused;
  await holdsInEveryLook(
    (look) => stage.chromium.open(staged.url, `/console/connectors/${path}`, look),
    loaded,
  );
});
