// A connector is edited in a real browser: without its secrets, and beside others who edit it too.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Page } from "puppeteer-core";
import { violationsOf } from "../support/browser/accessibility.ts";
import type { ConsoleStage } from "../support/browser/console-stage.ts";
import {
  goTo,
  hook,
  openForm,
  reach,
  secret,
  storedConnector,
  unexpected,
} from "../support/browser/edit-form.ts";
import { fieldValue, fillField, press, replaceText, textOf, unfoldAll } from "../support/browser/form.ts";
import { FormStage, formStageMs } from "../support/browser/form-stage.ts";
import { pressAt } from "../support/browser/keyboard.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let forms: FormStage;
let server: PostgresServer;
let stage: ConsoleStage;

beforeAll(async () => {
  forms = await FormStage.start();
  ({ server, console: stage } = forms);
  await stage.api.createConnector("hook", hook(server));
}, formStageMs);

afterAll(async () => {
  await forms?.[Symbol.asyncDispose]();
});

describe("editing", () => {
  test("changes what was changed, keeps secrets, and shows none", async () => {
    await using opened = await openForm(stage, "/console/connectors/hook/edit?step=sink");
    const { page } = opened;
    const before = await storedConnector(stage, "hook");
    const url = await page.waitForSelector('[name="/sink/webhook/url"]');
    expect(await url?.evaluate((field) => field.hasAttribute("readonly"))).toBe(true);
    expect(await textOf(page)).toContain("cannot change");
    expect(await textOf(page)).toContain("set, and kept");
    await goTo(page, "review");
    await reach(page, "Review");
    expect(await textOf(page)).toContain("Nothing is changed yet.");
    await goTo(page, "sink");
    await reach(page, "Sink");
    await unfoldAll(page);
    await fillField(page, "/sink/webhook/retry/max_retries", "9");
    await goTo(page, "review");
    await reach(page, "Review");
    expect(await textOf(page, ".changes")).toBe("/sink/webhook/retry/max_retries7 →  becomes 9");
    expect(await page.content()).not.toContain(secret);
    // As the button does: what somebody else has changed meanwhile is not overwritten.
    expect(await textOf(page)).toMatch(/-X PATCH [\s\S]*-H 'if-match: "[^"]+"'/);
    await pressAt(page, "Save the changes");
    await waitFor("the connector's page", async () => page.url().endsWith("/console/connectors/hook"));
    const after = await storedConnector(stage, "hook");
    expect(after).toEqual(JSON.parse(JSON.stringify(before).replace('"max_retries":7', '"max_retries":9')));
    expect(unexpected(opened)).toEqual([]);
  });

  test("as JSON is in step with the form, and does not lose a secret", async () => {
    await using opened = await openForm(stage, "/console/connectors/hook/edit?step=json");
    const { page } = opened;
    const text = await fieldValue(page, "/");
    expect(text).not.toContain(secret);
    const edit = (next: string) => replaceText(page, "/", next);
    await edit("{");
    await waitFor("the error", async () => (await textOf(page)).includes("no JSON yet"));
    await edit(text.replace('"name": null', '"name": "Hooks"'));
    await goTo(page, "review");
    await reach(page, "Review");
    expect(await fieldValue(page, "/name")).toBe("Hooks");
    expect(await textOf(page, ".changes")).toBe("/namenothing →  becomes Hooks");
    expect(unexpected(opened)).toEqual([]);
  });

  test("what cannot change is cloned, with its secrets", async () => {
    await using opened = await openForm(stage, "/console/connectors/hook/edit?step=source");
    const { page } = opened;
    await pressAt(page, "Clone this connector");
    await waitFor("the clone", async () => page.url().endsWith("/console/new?from=hook"));
    await page.waitForSelector('[name="/source/postgres/connection/host"]:not([readonly])');
    await goTo(page, "sink");
    await reach(page, "Sink");
    await fillField(page, "/sink/webhook/url", "http://127.0.0.1:9/other");
    await goTo(page, "review");
    await reach(page, "Review");
    await pressAt(page, "Create the connector");
    await waitFor("the connector's page", async () => page.url().endsWith("/console/connectors/hook-2"));
    const { source, sink } = await storedConnector(stage, "hook-2");
    expect(sink).toMatchObject({
      webhook: { url: "http://127.0.0.1:9/other", auth: { bearer: { token: "***" } } },
    });
    expect(source).toMatchObject({ postgres: { connection: { password: "***" } } });
    expect(unexpected(opened)).toEqual([]);
  });

  test("an unknown connector is said to be unknown", async () => {
    await using opened = await stage.open("/console/connectors/nobody/edit");
    await waitFor("the failure", async () => (await textOf(opened.page)).includes("did not come"));
  });
});

describe("where somebody else is quicker", () => {
  const path = "/api/v1/connectors/busy";
  const save = ".step-footer .button.primary";
  const shows = (page: Page, text: string) =>
    waitFor(`the page to show ${text}`, async () => (await textOf(page)).includes(text));

  beforeEach(async () => {
    await stage.api.createConnector("busy", hook(server));
  });

  /** Does it once, when the page's request is on its way: nothing that the page asked before can have told it. */
  async function beforeRequest(page: Page, method: string, act: () => Promise<unknown>): Promise<void> {
    let isDone = false;
    await page.setRequestInterception(true);
    page.on("request", async (request) => {
      if (request.method() === method && !isDone) {
        isDone = true;
        await act();
      }
      await request.continue();
    });
  }

  const theirs = () =>
    stage.api.call("PATCH", path, { name: "theirs", sink: { webhook: { path_template: "theirs" } } });

  test("their change is shown, and kept beside one's own", async () => {
    await using opened = await openForm(stage, "/console/connectors/busy/edit?step=review");
    const { page } = opened;
    await fillField(page, "/name", "mine");
    await beforeRequest(page, "PATCH", theirs);
    await press(page, save);
    await shows(page, "Somebody else has changed this connector meanwhile");
    expect(await textOf(page, ".notice")).toContain("/sink/webhook/path_template");
    expect((await stage.api.connector("busy")).connector.name).toBe("theirs");
    expect(await textOf(page, "section .changes")).toBe("/nametheirs →  becomes mine");
    expect(await violationsOf(page)).toEqual([]);
    await press(page, save);
    await page.waitForSelector(".tabs");
    const { name, sink } = (await stage.api.connector("busy")).connector;
    expect([name, sink.webhook?.path_template]).toEqual(["mine", "theirs"]);
    expect(unexpected(opened)).toEqual([]);
  });

  test("their change can be taken, and one's own dropped", async () => {
    await using opened = await openForm(stage, "/console/connectors/busy/edit?step=review");
    const { page } = opened;
    await fillField(page, "/name", "mine");
    await theirs();
    await press(page, save);
    await shows(page, "Somebody else has changed this connector meanwhile");
    await press(page, ".notice .button");
    await shows(page, "Nothing is changed yet.");
    expect(await fieldValue(page, "/name")).toBe("theirs");
    expect(await page.$(".notice .button")).toBeNull();
    await press(page, ".brand");
    await page.waitForSelector(".connector-row");
    expect(unexpected(opened)).toEqual([]);
  });

  test("a new connector does not replace theirs of the same id", async () => {
    await using opened = await openForm(stage, "/console/new?from=busy&step=review");
    const { page } = opened;
    await fillField(page, "/id", "contested");
    const make = () => stage.api.createConnector("contested", { ...hook(server), name: "theirs" });
    await beforeRequest(page, "POST", make);
    await press(page, save);
    await shows(page, "Another connector has this id");
    expect(await page.$eval('[name="/id"]', (field) => field.getAttribute("aria-invalid"))).toBe("true");
    expect((await stage.api.connector("contested")).connector.name).toBe("theirs");
    expect(unexpected(opened)).toEqual([]);
  });
});
