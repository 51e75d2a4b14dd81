// Every step of the form, with its errors, breaks no rule of access.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { violationsOf } from "../support/browser/accessibility.ts";
import type { ConsoleStage } from "../support/browser/console-stage.ts";
import { hook, isRefusal, openForm, secret, sleeper } from "../support/browser/edit-form.ts";
import { unfoldAll } from "../support/browser/form.ts";
import { FormStage, formStageMs } from "../support/browser/form-stage.ts";
import { tabTo } from "../support/browser/keyboard.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";

let forms: FormStage;
let server: PostgresServer;
let stage: ConsoleStage;

beforeAll(async () => {
  forms = await FormStage.start();
  ({ server, console: stage } = forms);
  await stage.api.createConnector(
    "shop",
    sleeper(server, { postgres: { connection: { ...server.connection("warehouse"), password: secret } } }),
  );
  await stage.api.createConnector("hook", hook(server));
}, formStageMs);

afterAll(async () => {
  await forms?.[Symbol.asyncDispose]();
});

describe("every step breaks no rule of access", () => {
  test.each(["source", "sink", "tables", "review", "json"])(
    "%s",
    async (step) => {
      for (const path of [
        `/console/new?from=shop&step=${step}`,
        `/console/connectors/hook/edit?step=${step}`,
      ])
        await holdsInEveryLook(
          (look) => openForm(stage, path, look),
          async (page) => {
            if (step === "tables") await page.waitForSelector(".tree-row");
            await unfoldAll(page);
          },
          isRefusal,
        );
    },
    60_000,
  );

  test("nor does the form with its errors", async () => {
    await using opened = await openForm(stage, "/console/new");
    await tabTo(opened.page, "Next: the sink");
    await opened.page.keyboard.press("Enter");
    await opened.page.waitForSelector('[aria-invalid="true"]');
    expect(await violationsOf(opened.page)).toEqual([]);
  });
});
