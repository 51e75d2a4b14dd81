// The console in a real browser, served by the compiled program, over real Postgres servers.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import type { Chromium } from "../support/browser/chromium.ts";
import { ConsoleStage } from "../support/browser/console-stage.ts";
import { loaded } from "../support/browser/loaded.ts";
import type { PageOptions } from "../support/browser/look.ts";
import { holdsInEveryLook } from "../support/browser/looks.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
let service: ServiceProcess;
let chromium: Chromium;
let stage: ConsoleStage;
let api: ApiClient;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["shop", "warehouse"]) await server.createDatabase(name);
  await server.query(
    "create table orders (id int primary key, item text); insert into orders values (7, 'tea')",
    "shop",
  );
  stage = await ConsoleStage.start();
  ({ service, chromium, api } = stage);
}, 180_000);

afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const open = (path: string, options?: PageOptions) => chromium.open(service.url, path, options);

function connectorTo(database: string) {
  const connection = { ...server.connection("shop"), ssl_mode: "Prefer" };
  return {
    source: { postgres: { connection, replication_type: { logical_replication: {} } } },
    sink: { postgres: { connection: { ...connection, database } } },
  };
}

describe("without a connector", () => {
  test("the page says what to do first", async () => {
    await using opened = await open("/");
    await loaded(opened.page);
    expect(await opened.page.$eval("h1", (title) => title.textContent)).toBe("No connector yet");
    expect(await opened.page.$eval("main", (main) => main.textContent)).toContain("millrace demo");
    expect(opened.complaints).toEqual([]);
  });

  test.each(["/", "/console/service", "/console/new", "/console/nothing"])(
    "%s breaks no rule of access",
    async (path) => {
      await holdsInEveryLook((look) => open(path, look), loaded);
    },
  );
});

describe("with a connector", () => {
  beforeAll(async () => {
    await api.createConnector("orders", connectorTo("warehouse"));
    await waitFor("the stream", async () => "realtime" in (await api.connector("orders")).status.state);
  });

  test("the list shows it, and a change of its state as it happens", async () => {
    await using opened = await open("/");
    const word = () => opened.page.$eval(".connector-row .badge", (badge) => badge.textContent);
    await waitFor("the badge", async () => (await word().catch(() => null)) === "Streaming");
    await waitFor(
      "events",
      async () => (await opened.page.$eval(".link-state", (e) => e.textContent)) === "Live",
    );
    await api.command("orders", "Stop");
    await waitFor("the change", async () => (await word()) === "Stopped");
    await api.command("orders", "Start");
    await waitFor("the change back", async () => (await word()) === "Streaming");
    expect(opened.complaints).toEqual([]);
  });
});
