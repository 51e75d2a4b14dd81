// The compiled program, alone in an empty directory, carries a row from a source to each sink, and goes on after a
// restart: API, workers, migrations, embedded state and the Swagger page are all in the one file.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFile, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../src/demo/api-client.ts";
import { Receiver } from "../../src/demo/receiver.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
let directory: string;
let binary: string;

beforeAll(async () => {
  const built = await compiledBinary();
  server = await PostgresServer.start();
  directory = await mkdtemp(join(tmpdir(), "millrace-e2e-"));
  binary = join(directory, "millrace");
  await copyFile(built, binary);
}, 120_000);

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

interface Setting {
  readonly name: string;
  readonly environment: () => Promise<Record<string, string>>;
}

const settings: readonly Setting[] = [
  { name: "embedded", environment: async () => ({}) },
  {
    name: "external",
    environment: async () => {
      await server.createDatabase("state");
      const { user, host, port } = server.connection();
      return { DATABASE_URL: `postgres://${user}@${host}:${port}/state` };
    },
  },
];

describe.each([...settings])("with $name state", ({ name, environment }) => {
  test("a row goes from the source to each sink, before and after a restart", async () => {
    const home = join(directory, name);
    await mkdir(home);
    const [sourceDatabase, sinkDatabase] = [`source_${name}`, `sink_${name}`];
    await server.createDatabase(sourceDatabase);
    await server.createDatabase(sinkDatabase);
    await server.query("create table item (id bigint primary key, note text)", sourceDatabase);
    await server.query("insert into item values (1, 'copied')", sourceDatabase);

    await using receiver = Receiver.start();
    await using service = await ServiceProcess.start({
      command: [binary],
      dataDirectory: join(home, "data"),
      workingDirectory: home,
      environment: await environment(),
    });
    const api = new ApiClient(service.url);
    await expectSwagger(api);
    const source = {
      postgres: {
        connection: server.connection(sourceDatabase),
        replication_type: { logical_replication: {} },
      },
    };
    await api.createConnector(`${name}-postgres`, {
      source,
      sink: { postgres: { connection: server.connection(sinkDatabase) } },
    });
    await api.createConnector(`${name}-webhook`, {
      source,
      sink: { webhook: { url: receiver.url, path_template: "{schema}/{table}" } },
    });

    await expectRow(receiver, sinkDatabase, { id: "1", note: "copied" });
    await server.query("insert into item values (2, 'streamed')", sourceDatabase);
    await expectRow(receiver, sinkDatabase, { id: "2", note: "streamed" });

    expect(await service.stop()).toEqual({ code: 0, signal: null });
    await server.query("insert into item values (3, 'while it was down')", sourceDatabase);
    await service.launch();
    await expectRow(receiver, sinkDatabase, { id: "3", note: "while it was down" });
    expect(receiver.contradictions).toEqual([]);

    for (const id of [`${name}-postgres`, `${name}-webhook`]) {
      await api.deleteConnector(id);
      await waitFor(`${id} is gone`, async () => !(await api.exists(id)));
    }
    expect(await server.query("select slot_name from pg_replication_slots", sourceDatabase)).toEqual([]);
    expect(await server.query("select pubname from pg_publication", sourceDatabase)).toEqual([]);
    await service.stop();
    expect(await readdir(home)).toEqual(["data"]);
  }, 120_000);
});

test("it tells its version and its settings", async () => {
  const run = async (...args: string[]) => {
    const child = Bun.spawn([binary, ...args], { cwd: directory, stdout: "pipe", stderr: "pipe" });
    const text = await new Response(child.stdout).text();
    return { code: await child.exited, text };
  };
  expect(await run("version")).toMatchObject({ code: 0, text: expect.stringMatching(/\d+\.\d+\.\d+/) });
  for (const args of [["--help"], ["serve", "--help"], ["demo", "--help"], ["version", "--help"]]) {
    expect(await run(...args)).toMatchObject({ code: 0, text: expect.stringContaining("Usage") });
  }
});

/** At the Postgres sink, and at the receiver. */
async function expectRow(
  receiver: Receiver,
  database: string,
  row: { id: string; note: string },
): Promise<void> {
  await waitFor(`row ${row.id} at the Postgres sink`, async () => {
    const rows = await server.query(`select id::text, note from item where id = ${row.id}`, database);
    expect(rows).toEqual([row]);
    return true;
  });
  await waitFor(`row ${row.id} at the receiver`, () =>
    [...receiver.deliveries.values()].some((delivery) => {
      expect(delivery).toMatchObject({ schema: "public", table: "item" });
      const rows = JSON.parse(delivery.body) as { id: number; note: string; _sm_deleted: boolean }[];
      return rows.some((r) => String(r.id) === row.id && r.note === row.note && !r._sm_deleted);
    }),
  );
}

/** The page and all that it loads come from the service itself. */
async function expectSwagger(api: ApiClient): Promise<void> {
  const page = await api.request("GET", "/swagger");
  expect(page.headers.get("content-type")).toContain("text/html");
  const html = await page.text();
  const assets = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map((match) => match[1] ?? "");
  expect(assets.length).toBeGreaterThan(0);
  for (const asset of assets) {
    expect(asset).not.toMatch(/^(https?:)?\/\//);
    const path = new URL(asset, `${api.baseUrl}/swagger`).pathname;
    const response = await api.request("GET", path);
    await response.arrayBuffer();
    expect([path, response.status]).toEqual([path, 200]);
  }
  const document = await api.call<{ openapi: string; paths: object }>("GET", "/swagger/json");
  expect(document.openapi).toStartWith("3.");
  expect(Object.keys(document.paths)).toContain("/api/v1/connectors/{connector_id}");
}
