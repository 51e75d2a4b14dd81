// Swagger UI of the compiled program in a real browser: Debian's Chromium, or the one of MILLRACE_CHROMIUM.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const chromium = process.env.MILLRACE_CHROMIUM ?? "/usr/bin/chromium";
const account = { username: "operator", password: "only-for-this-test" };

let server: PostgresServer;
let service: ServiceProcess;
let browser: Browser;
let directory: string;

beforeAll(async () => {
  if (!existsSync(chromium)) {
    throw new Error(`There is no ${chromium}: apt-get install chromium, or set MILLRACE_CHROMIUM.`);
  }
  const binary = await compiledBinary();
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "warehouse"]) await server.createDatabase(name);
  await server.query("create table orders (id int primary key); insert into orders values (7)", "shop");
  directory = await mkdtemp(join(tmpdir(), "millrace-browser-"));
  service = await ServiceProcess.start({
    command: [binary],
    environment: { MILLRACE_USERNAME: account.username, MILLRACE_PASSWORD: account.password },
    dataDirectory: join(directory, "data"),
    workingDirectory: directory,
  });
  browser = await puppeteer.launch({
    executablePath: chromium,
    userDataDir: join(directory, "profile"),
    // No other machine has a name for it. Without a sandbox it runs as root, too.
    args: ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
  });
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await service?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  if (directory) await rm(directory, { recursive: true, force: true });
});

/** The page, rendered; `complaints` are what the browser had to say, and requests that failed or went elsewhere. */
async function openPage(): Promise<{ page: Page; requests: string[]; complaints: string[] }> {
  const page = await browser.newPage();
  await page.authenticate(account);
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => {
    requests.push(request.url());
    const isOurs = request.url().startsWith(`${service.url}/`) || request.url().startsWith("data:");
    if (!isOurs) complaints.push(`asked ${request.url()}`);
  });
  page.on("requestfailed", (request) => complaints.push(`failed ${request.url()}`));
  page.on("response", (response) => {
    if (response.status() >= 500) complaints.push(`${response.status()} ${response.url()}`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  await page.goto(`${service.url}/swagger`);
  await page.waitForSelector(".opblock");
  return { page, requests, complaints };
}

const createConnector = "#operations-Connectors-createConnector";
const editor = `${createConnector} textarea.body-param__text`;

/** Presses Execute; the status that the page shows. */
async function execute(page: Page, operation: string): Promise<string> {
  await page.click(`${operation} .btn.execute`);
  const shown = await page.waitForSelector(`${operation} .live-responses-table tbody .response-col_status`);
  return (await shown!.evaluate((cell) => cell.textContent ?? "")).slice(0, 3);
}

async function read<Body>(path: string): Promise<Body> {
  const credentials = Buffer.from(`${account.username}:${account.password}`).toString("base64");
  const response = await fetch(service.url + path, { headers: { authorization: `Basic ${credentials}` } });
  return (await response.json()) as Body;
}

async function connectors() {
  return (await read<{ connectors: { status: { state: object } }[] }>("/api/v1/connectors")).connectors;
}

test("the page shows every operation, and loads nothing from another machine", async () => {
  const { page, requests, complaints } = await openPage();
  const shown = await page.$$eval(".opblock-summary-path", (paths) => paths.map((path) => path.textContent));
  const { paths } = await read<{ paths: Record<string, object> }>("/swagger/json");
  const operations = Object.values(paths).flatMap((methods) => Object.keys(methods));
  expect(operations.length).toBeGreaterThan(20);
  expect(shown).toHaveLength(operations.length);
  expect(await page.title()).toBe("millrace API");
  // At once: with the mouse, each one is scrolled to, which takes most of a minute.
  await page.$$eval(".opblock-summary-control", (headers) => {
    for (const header of headers) (header as unknown as { click(): void }).click();
  });
  const opened = async () => (await page.$$(".opblock.is-open")).length;
  await waitFor("all operations to open", async () => (await opened()) === operations.length);
  expect(complaints).toEqual([]);
  expect(new Set(requests.map((url) => url.replace(service.url, "").slice(0, 9)))).toEqual(
    new Set(["/swagger", "/swagger/", "data:imag"]),
  );
  await page.close();
});

test("a first connector is made with two clicks, as the example is filled in", async () => {
  const { page, complaints } = await openPage();
  await page.click(`${createConnector} .opblock-summary-control`);
  await page.waitForSelector(editor);
  expect(await execute(page, createConnector)).toBe("201");
  expect(await connectors()).toHaveLength(1);
  expect(complaints).toEqual([]);
  await page.close();
});

test("edited for servers that are there, it runs", async () => {
  const { page, complaints } = await openPage();
  await page.click(`${createConnector} .opblock-summary-control`);
  const area = await page.waitForSelector(editor);
  const example = await area!.evaluate((field) => (field as unknown as { value: string }).value);
  await area!.click();
  await page.keyboard.down("Control");
  await page.keyboard.press("KeyA");
  await page.keyboard.up("Control");
  await page.keyboard.sendCharacter(example.replaceAll("5432", String(server.port)));
  expect(await execute(page, createConnector)).toBe("201");
  await waitFor("the copy", async () => {
    const copied = await server.query("select id from orders", "warehouse").catch(() => []);
    return copied.length === 1;
  });
  await waitFor("the stream", async () =>
    (await connectors()).some(({ status }) => "realtime" in status.state),
  );
  expect(complaints).toEqual([]);
  await page.close();
});
