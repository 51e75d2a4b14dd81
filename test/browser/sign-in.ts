// Signing in to the console, in a real browser and at real services: each kind of credentials, and what becomes of them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import type { Chromium, OpenedPage } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { textOf } from "../support/browser/form.ts";
import { loaded } from "../support/browser/loaded.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { ManyConnectors, states } from "../support/browser/many-connectors.ts";
import { StagedService } from "../support/browser/staged-service.ts";
import { waitFor } from "../support/wait-for.ts";

const basic = { MILLRACE_USERNAME: "operator", MILLRACE_PASSWORD: "pass:wörd" };
const bearer = { MILLRACE_API_TOKEN: "full-token-0123456789" };
const reading = { MILLRACE_READ_TOKEN: "read-token-0123456789" };

let stage: ConsoleStage;
let chromium: Chromium;

beforeAll(async () => {
  stage = await ConsoleStage.start();
  ({ chromium } = stage);
}, 180_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
});

/** `environment` may be changed before the service is started again. */
const start = (environment: Record<string, string>) => stage.another(environment);

const form = (page: Page) => page.waitForSelector("form input[name=secret]");

async function signIn(page: Page, secret: string, username?: string): Promise<void> {
  await form(page);
  for (const [name, text] of Object.entries({ username, secret })) {
    if (text === undefined) continue;
    const field = await page.waitForSelector(`input[name=${name}]`);
    await field?.click({ count: 3 });
    await field?.type(text);
  }
  await page.keyboard.press("Enter");
}

async function signInByToken(page: Page): Promise<void> {
  await form(page);
  await (await page.$("xpath///button[normalize-space(.)='Use a token']"))?.click();
  await waitFor("the field", async () => (await page.$("input[name=username]")) === null);
  await signIn(page, bearer.MILLRACE_API_TOKEN);
  await signedIn(page);
}

const signedIn = (page: Page) => page.waitForSelector(".main-nav");
const stored = (page: Page) =>
  page.evaluate(() => {
    const { sessionStorage, localStorage, document } = globalThis as unknown as {
      readonly sessionStorage: Record<string, string>;
      readonly localStorage: Record<string, string>;
      readonly document: { readonly cookie: string };
    };
    return { session: { ...sessionStorage }, local: { ...localStorage }, cookie: document.cookie };
  });

/** Refusals are what these tests are about; the browser tells of each. */
const isRefusal = (complaint: string) => /status of 401/.test(complaint);
const unexpected = ({ complaints }: OpenedPage) => complaints.filter((text) => !isRefusal(text));

describe("the form", () => {
  test("asks for a user name and a password, says which are wrong, and forgets them at signing out", async () => {
    await using service = await start(basic);
    await using opened = await chromium.open(service.url, "/console/service");
    const { page } = opened;
    await form(page);
    expect(await page.$eval(":focus", (field) => field.getAttribute("name"))).toBe("username");
    expect(await textOf(page)).not.toContain("Use a token");
    await signIn(page, "wrong", "operator");
    await waitFor("the refusal", async () => (await textOf(page)).includes("credentials are wrong"));
    expect((await stored(page)).session).toEqual({});
    await signIn(page, basic.MILLRACE_PASSWORD);
    await signedIn(page);
    await loaded(page);
    expect(new URL(page.url()).pathname).toBe("/console/service");
    const held = await stored(page);
    expect(held.local).toEqual({});
    expect(held.cookie).toBe("");
    expect(Object.keys(held.session)).toEqual(["millrace.authorization"]);
    await page.reload();
    await signedIn(page);
    const [signOut] = await page.$$("xpath///button[normalize-space(.)='Sign out']");
    await signOut?.click();
    await form(page);
    expect(await stored(page)).toEqual({ session: {}, local: {}, cookie: "" });
    expect(unexpected(opened)).toEqual([]);
  }, 30_000);

  test("takes a token, which is gone with the tab", async () => {
    await using service = await start(bearer);
    await using opened = await chromium.open(service.url, "/");
    const { page } = opened;
    await form(page);
    expect(await page.$("input[name=username]")).toBeNull();
    expect(await page.$eval(":focus", (field) => field.getAttribute("name"))).toBe("secret");
    await signIn(page, bearer.MILLRACE_API_TOKEN);
    await signedIn(page);
    const other = await page.browserContext().newPage();
    await other.goto(service.url);
    await form(other);
    expect((await stored(other)).session).toEqual({});
    expect(unexpected(opened)).toEqual([]);
  }, 30_000);

  test("takes either where the service takes both", async () => {
    await using service = await start({ ...basic, ...bearer });
    for (const isToken of [false, true]) {
      await using opened = await chromium.open(service.url, "/");
      const { page } = opened;
      await form(page);
      if (isToken) await signInByToken(page);
      else await signIn(page, basic.MILLRACE_PASSWORD, basic.MILLRACE_USERNAME);
      await signedIn(page);
      expect(unexpected(opened)).toEqual([]);
    }
  }, 30_000);

  test("is the only one: the browser asks for nothing by itself", async () => {
    await using service = await start(basic);
    await using opened = await chromium.open(service.url, "/console/assets/icon.svg");
    const { page } = opened;
    const session = await page.createCDPSession();
    const asked: string[] = [];
    await session.send("Fetch.enable", { handleAuthRequests: true });
    session.on("Fetch.requestPaused", ({ requestId }) => {
      void session.send("Fetch.continueRequest", { requestId }).catch(() => {});
    });
    session.on("Fetch.authRequired", ({ requestId, request }) => {
      asked.push(new URL(request.url).pathname);
      const authChallengeResponse = { response: "CancelAuth" as const };
      void session.send("Fetch.continueWithAuth", { requestId, authChallengeResponse }).catch(() => {});
    });
    await page.goto(`${service.url}/`);
    await signIn(page, "wrong", "operator");
    await waitFor("the refusal", async () => (await textOf(page)).includes("credentials are wrong"));
    await signIn(page, basic.MILLRACE_PASSWORD);
    await signedIn(page);
    expect(asked).toEqual([]);
    // Whoever opens the API itself is asked: so the watch works.
    await page.goto(`${service.url}/api/v1/connectors`);
    expect(asked).toEqual(["/api/v1/connectors"]);
  }, 30_000);

  test("with its error breaks no rule of access", async () => {
    await using service = await start({ ...basic, ...bearer });
    const refused = async (page: Page) => {
      await signIn(page, "wrong", "operator");
      await page.waitForSelector("[role=alert]");
    };
    await holdsInEveryLook((look) => chromium.open(service.url, "/", look), refused, isRefusal);
  }, 30_000);
});

test("credentials that stop being valid lead to the form, and from there back to the same page", async () => {
  const environment: Record<string, string> = { ...bearer };
  await using service = await start(environment);
  await using staged = new StagedService(service.url);
  const path = "/console/new?step=json";
  for (const address of ["/console/service", path]) {
    environment.MILLRACE_API_TOKEN = bearer.MILLRACE_API_TOKEN;
    await service.stop();
    await service.launch();
    await using opened = await chromium.open(staged.url, address);
    const { page } = opened;
    await signIn(page, bearer.MILLRACE_API_TOKEN);
    await signedIn(page);
    await service.stop();
    environment.MILLRACE_API_TOKEN = "another-token-0123456789";
    await service.launch();
    await page.waitForSelector("form input[name=secret]", { timeout: 8_000 });
    expect((await stored(page)).session).toEqual({});
    await signIn(page, environment.MILLRACE_API_TOKEN);
    await signedIn(page);
    const { pathname, search } = new URL(page.url());
    expect(pathname + search).toBe(address);
  }
}, 60_000);

describe("whoever may only read", () => {
  const connectors = new ManyConnectors(0);
  for (const [id, status] of Object.entries(states)) connectors.set(id, status);
  /** A text is copied to the clipboard. */
  const text = "SQL|commands?|JSON|file|variables";
  const writes = new RegExp(
    `^(New|Start|Stop|Restart|Edit|More|Clone|Delete|Copy (?!(${text})$).+|Create|Save|Cancel|Retry|Resync)\\b`,
  );
  const tabs = ["", "/tables", "/tasks", "/history", "/doctor", "/configuration"];
  const paths = [
    ...["/", "/console/service", "/console/new", "/console/connectors/failed/edit"],
    ...tabs.map((tab) => `/console/connectors/failed${tab}`),
    ...["retrying", "aside", "copying", "preparing", "streaming", "stopped", "disabled"].map(
      (id) => `/console/connectors/${id}`,
    ),
  ];

  test("sees every page, no action on any, and why", async () => {
    await using service = await start({ ...bearer, ...reading });
    await using staged = new StagedService(service.url, connectors);
    staged.override = reports;
    await using opened = await chromium.open(staged.url, "/");
    const { page } = opened;
    await signIn(page, reading.MILLRACE_READ_TOKEN);
    await signedIn(page);
    for (const path of paths) {
      await page.goto(staged.url + path);
      await loaded(page);
      const actions = await page.$$eval("main button, main a", (all) =>
        all.map((action) => action.textContent?.trim() ?? ""),
      );
      expect({ path, actions: actions.filter((action) => writes.test(action)) }).toEqual({
        path,
        actions: [],
      });
      expect(await textOf(page, ".top")).toContain("Read only");
      if (path !== "/console/service") expect(await textOf(page)).toContain("You may only read");
    }
    expect(unexpected(opened)).toEqual([]);
  }, 60_000);

  test("is refused by the service as well", async () => {
    await using service = await start({ ...bearer, ...reading });
    const headers = { authorization: `Bearer ${reading.MILLRACE_READ_TOKEN}` };
    const response = await fetch(`${service.url}/api/v1/connectors/x`, { method: "DELETE", headers });
    expect(response.status).toBe(403);
  });

  test("finds pages that break no rule of access", async () => {
    await using service = await start({ ...bearer, ...reading });
    await using staged = new StagedService(service.url, connectors);
    for (const path of ["/", "/console/new", "/console/connectors/aside"])
      await holdsInEveryLook(
        (look) => chromium.open(staged.url, path, look),
        async (page) => {
          await signIn(page, reading.MILLRACE_READ_TOKEN);
          await signedIn(page);
          await loaded(page);
        },
        isRefusal,
      );
  }, 60_000);
});

/** What a staged connector has beside its status. */
function reports(path: string): Response | null {
  const table = { schema: "public", name: "orders", state: "Streaming", rows_in: 7, history: false };
  if (path.endsWith("/tables")) return Response.json({ tables: [table] });
  return path.endsWith("/tasks") || path.startsWith("/connector/history/") ? Response.json([]) : null;
}

test("a service that is away at first is found as soon as it comes", async () => {
  await using staged = new StagedService(stage.service.url);
  staged.isAway = true;
  await using opened = await chromium.open(staged.url, "/console/service");
  const { page } = opened;
  await waitFor("the failure", async () => (await textOf(page)).includes("cannot be used now"));
  staged.isAway = false;
  await page.waitForSelector(".main-nav", { timeout: 5_000 });
  expect(new URL(page.url()).pathname).toBe("/console/service");
}, 30_000);

test("a service that is away while somebody signs in keeps no credentials in the tab", async () => {
  await using service = await start(bearer);
  await using staged = new StagedService(service.url);
  await using opened = await chromium.open(staged.url, "/");
  const { page } = opened;
  await form(page);
  staged.isAway = true;
  await signIn(page, bearer.MILLRACE_API_TOKEN);
  await waitFor("the failure", async () => (await textOf(page)).includes("Sign-in failed"));
  expect((await stored(page)).session).toEqual({});
  staged.isAway = false;
  await page.keyboard.press("Enter");
  await signedIn(page);
}, 30_000);

test("a late refusal of earlier credentials does not sign out who has signed in since", async () => {
  await using service = await start({ ...basic, ...bearer });
  await using staged = new StagedService(service.url);
  const late = Promise.withResolvers<Response>();
  let held = 0;
  staged.override = (path) => (path === "/samples" && held++ === 0 ? late.promise : null);
  await using opened = await chromium.open(staged.url, "/");
  const { page } = opened;
  await signIn(page, basic.MILLRACE_PASSWORD, basic.MILLRACE_USERNAME);
  await signedIn(page);
  await waitFor("the request", () => held > 0);
  const [signOut] = await page.$$("xpath///button[normalize-space(.)='Sign out']");
  await signOut?.click();
  await signInByToken(page);
  const refusal = page.waitForResponse((response) => response.status() === 401);
  late.resolve(new Response(null, { status: 401 }));
  await refusal;
  await loaded(page);
  expect(await page.$("form input[name=secret]")).toBeNull();
}, 30_000);
