// The proof of histories, in short: `test/long/history.ts` plays it for longer, and kills the real service.
// MILLRACE_HISTORY_SEED brings a failure back as far as sessions side by side can.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { seeded } from "../../support/contract/history.ts";
import { playSchema } from "../../support/loads/history-load.ts";
import { playHistories } from "../../support/loads/history-play.ts";
import { withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const seed = Number(process.env.MILLRACE_HISTORY_SEED ?? Math.floor(Math.random() * 1e9));

test(`histories replayed to random places are the tables of then (seed ${seed})`, async () => {
  const catalog = withHistory("one", "two");
  const audit = { name: "audit", action: "Exclude" as const, tables: [] };
  await using rig = await PipelineRig.create(server, "play", {
    source: { catalog: { ...catalog, schemas: [...catalog.schemas, audit] } },
    isSupervised: true,
  });
  await rig.source(playSchema);
  rig.start();
  const verified = await playHistories(
    {
      source: (sql) => rig.source(sql),
      sink: (sql) => rig.sink(sql),
      session: () => rig.sourceSession(),
      state: async () => [rig.warnings, rig.setAside],
      die: async () => {
        await rig.crash();
        rig.start();
      },
      copy: (table) => void rig.snapshot(table, true),
    },
    seeded(seed),
    { places: 60, deaths: 5 },
  );
  expect(verified.places).toBeGreaterThan(100);
  expect(verified.changes).toBeGreaterThan(100);
  await rig.stop();
}, 120_000);
