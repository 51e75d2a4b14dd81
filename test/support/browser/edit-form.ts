// The form of a connector, as its tests go through it.

import type { Page } from "puppeteer-core";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import type { OpenedPage } from "./chromium.ts";
import type { ConsoleStage } from "./console-stage.ts";
import { press } from "./form.ts";
import { typeInto } from "./keyboard.ts";
import type { PageOptions } from "./look.ts";

/** What no page may show. */
export const secret = "planted-secret-9f2c";

export async function openForm(
  stage: ConsoleStage,
  path: string,
  options?: PageOptions,
): Promise<OpenedPage> {
  const opened = await stage.open(path, options);
  await opened.page.waitForSelector(".steps");
  return opened;
}

/** Refusals are part of the form's life; the browser tells of each. */
export const isRefusal = (complaint: string) => /status of 4(04|09|12|22)/.test(complaint);
export const unexpected = ({ complaints }: OpenedPage) => complaints.filter((text) => !isRefusal(text));

export const heading = (page: Page) => page.$eval(".edit-step h2", (title) => title.textContent);
export const reach = (page: Page, title: string) =>
  waitFor(title, async () => (await heading(page)) === title);
export const goTo = (page: Page, step: string) => press(page, `.steps a[href*="step=${step}"]`);

export async function typeConnection(
  page: Page,
  side: "source" | "sink",
  { host, port, user, database }: ReturnType<PostgresServer["connection"]>,
): Promise<void> {
  for (const [key, value] of Object.entries({ host, port, database, user, password: secret }))
    await typeInto(page, `/${side}/postgres/connection/${key}`, String(value));
}

export async function storedConnector({ api }: ConsoleStage, id: string) {
  return (await api.connector(id)).connector as unknown as { readonly source: object; readonly sink: object };
}

/** It does not run, so its sink need not be there. */
export function sleeper(server: PostgresServer, sink: object) {
  const connection = { ...server.connection("shop"), password: secret, ssl_mode: "Prefer" };
  return {
    disabled: true,
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink,
  };
}

/** With settings that the form has no fields for. */
export const hook = (server: PostgresServer) => ({
  ...sleeper(server, {
    webhook: {
      url: "http://127.0.0.1:9/hook",
      auth: { bearer: { token: secret } },
      headers: { static_: [{ name: "X-Api-Key", value: secret }] },
      retry: { max_retries: 7 },
    },
  }),
  limits: { cdc: { flush_interval_ms: 50 }, snapshot: { max_buffer_rows: 1234 } },
});
