// Deletion at any moment of a connector's work: soon nothing of it is left at the source.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../src/demo/api-client.ts";
import { ServiceProcess } from "../src/demo/service-process.ts";
import { PostgresServer } from "./support/servers/postgres-server.ts";
import { waitFor } from "./support/wait-for.ts";

const command = [process.execPath, join(import.meta.dir, "..", "src", "main.ts")];
let directory: string;
let server: PostgresServer;
let service: ServiceProcess;
let api: ApiClient;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.createDatabase("shop");
  await server.createDatabase("copy");
  await server.query("create table t (id int primary key, v text)", "shop");
  const dataDirectory = join(directory, "data");
  service = await ServiceProcess.start({
    command,
    environment: {},
    dataDirectory,
    workingDirectory: directory,
  });
  api = new ApiClient(service.url);
});

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function create(id: string, publication: string | null = null): Promise<void> {
  await api.createConnector(id, {
    source: {
      postgres: {
        connection: server.connection("shop"),
        replication_type: { logical_replication: { publication_name: publication } },
      },
    },
    sink: { postgres: { connection: server.connection("copy") } },
  });
}

const isRealtime = (id: string) => async () => (await api.connector(id)).status.state.realtime !== undefined;

const leftAtSource = () =>
  server.query<{ name: string }>(
    `select slot_name::text as name from pg_replication_slots
     union all select pubname::text from pg_publication
     union all select application_name from pg_stat_activity where backend_type = 'walsender'`,
    "shop",
  );

async function expectGone(id: string): Promise<void> {
  const begunAt = performance.now();
  await api.deleteConnector(id);
  await waitFor("the connector is gone", async () => !(await api.exists(id)));
  // A walsender is listed a moment longer than its slot.
  await waitFor("nothing is left", async () => (await leftAtSource()).length === 0);
  // The transaction that the slot waits for continues, and wal_sender_timeout is one minute.
  expect(performance.now() - begunAt).toBeLessThan(20_000);
}

test("in the middle of a large transaction", async () => {
  await create("large");
  await waitFor("the stream", isRealtime("large"));
  await server.query("insert into t select g, repeat('x', 500) from generate_series(1, 200000) g", "shop");
  await expectGone("large");
});

test("while its slot waits for a transaction", async () => {
  await using writer = await server.connect("shop");
  await writer.query("begin; insert into t values (-1)");
  await create("waiting");
  await waitFor("it waits", async () => {
    const { state, status } = (await api.connector("waiting")).status;
    return (
      state.initialize?.sub_state === "make the replication slot" &&
      status.warning?.reason.includes("pg_terminate_backend")
    );
  });
  await expectGone("waiting");
  await writer.query("rollback");
});

test("after the service was killed, and before the server noticed that the walsender's client is gone", async () => {
  await create("killed");
  await waitFor("the stream", isRealtime("killed"));
  await service.kill();
  await service.launch();
  api = new ApiClient(service.url);
  await waitFor("the stream again", isRealtime("killed"));
  await expectGone("killed");
});

test("without changing a publication that the user owns", async () => {
  await server.query("create publication own for table t", "shop");
  await create("named", "own");
  await waitFor("the stream", isRealtime("named"));
  await api.deleteConnector("named");
  await waitFor("the connector is gone", async () => !(await api.exists("named")));
  await waitFor("only the publication is left", async () =>
    Bun.deepEquals(await leftAtSource(), [{ name: "own" }]),
  );
  await server.query("drop publication own", "shop");
});
