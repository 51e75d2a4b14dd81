// The proof of histories, with the service as its users run it, killed by -9 at random moments: MILLRACE_HISTORY_PLACES sets at how many moments
// the tables are recorded.

import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { seeded } from "../support/contract/history.ts";
import { playSchema } from "../support/loads/history-load.ts";
import { playHistories } from "../support/loads/history-play.ts";
import { withHistory } from "../support/oracles/history-tables.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

const seed = Number(process.env.MILLRACE_HISTORY_SEED ?? Math.floor(Math.random() * 1e9));
const places = Number(process.env.MILLRACE_HISTORY_PLACES ?? 1_000);

test(`histories replayed to ${places} places under kill -9 (seed ${seed})`, async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  for (const name of ["origin", "warehouse"]) await server.createDatabase(name);
  await server.query(playSchema, "origin");
  const directory = await mkdtemp(join(tmpdir(), "millrace-history-"));
  await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
  const command = [process.execPath, join(import.meta.dirname, "../../src/main.ts")];
  await using service = await ServiceProcess.start({ command, dataDirectory: directory });
  const api = new ApiClient(service.url);
  const catalog = withHistory("one", "two");
  const schemas = [...catalog.schemas, { name: "audit", action: "Exclude", tables: [] }];
  await api.createConnector("play", {
    source: {
      postgres: {
        connection: server.connection("origin"),
        replication_type: { logical_replication: {} },
        catalog: { schemas },
      },
    },
    sink: { postgres: { connection: server.connection("warehouse") } },
  });
  const verified = await playHistories(
    {
      source: (sql) => server.query(sql, "origin"),
      sink: (sql) => server.query(sql, "warehouse"),
      session: () => server.connect("origin"),
      state: async () => [
        await api.call("GET", "/api/v1/connectors/play/tables"),
        service.log.split("\n").slice(-30),
      ],
      die: async () => {
        await service.kill();
        await service.launch();
      },
      copy: (name) => {
        const task = {
          Snapshot: { database: "origin", schema: "public", name, truncate: true, force_parallel: false },
        };
        void api.call("POST", "/api/v1/connectors/play/tasks", task).catch(() => {});
      },
    },
    seeded(seed),
    { places, deaths: Math.ceil(places / 25) },
  );
  console.log(`${verified.changes} changes, tables compared at ${verified.places} places`);
  expect(verified.places).toBeGreaterThan(places);
}, 1_800_000);
