// A change that comes alone waits for nothing: batches grow under load only.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Client } from "pg";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

const wantedMs = 20;
const tries = 40;

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

async function untilThere(sink: Client, id: number): Promise<void> {
  for (;;) {
    const { rowCount } = await sink.query("select from t where id = $1", [id]);
    if (rowCount === 1) return;
    await Bun.sleep(0);
  }
}

test("a lone change is at the sink within 20 ms of its commit", async () => {
  const tables = "create table t (id int primary key)";
  await using rig = await PipelineRig.streaming(server, "lone", { source: tables, sink: tables });
  await using source = await server.connect(rig.sourceDatabase);
  await using sink = await server.connect(rig.sinkDatabase);
  const waitedMs: number[] = [];
  for (let id = 1; id <= tries; id++) {
    await source.query("insert into t values ($1)", [id]);
    const committedAt = performance.now();
    await untilThere(sink, id);
    waitedMs.push(performance.now() - committedAt);
    await Bun.sleep(25);
  }
  // Whatever else the machine is busy with, a wait that is built in would be in each of them.
  expect(waitedMs.toSorted((a, b) => a - b)[2]!).toBeLessThan(wantedMs);
  await rig.stop();
});
