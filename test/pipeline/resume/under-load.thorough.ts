// The source is written to while a connector goes on after a lost slot, and its run dies at any of its calls: each time the sink comes to equal the
// source, and so does the history.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { isWholeMatrix, pick } from "../../support/matrix.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { dropSlot, proved } from "../../support/pipeline/resumption.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const rows = 600;
/** The sink writes a row of the history for each change, and is to keep up with that. */
const paceMs = 25;

async function streaming(name: string, identity = "default"): Promise<PipelineRig> {
  const source = `${movingRows("m", rows, identity)}; create table own (id int primary key, v text);
    insert into own select g, 'v' from generate_series(1, 100) g`;
  const table = { name: "m", action: "Include", history_enabled: true } as const;
  const schemas = [{ name: "public", default_action: "Include", tables: [table] }] as const;
  const catalog = { name: "c", default_action: "Include", schemas: [...schemas] };
  return await PipelineRig.streaming(
    server,
    name,
    { source },
    { isSupervised: true, source: { catalog } as never },
  );
}

async function loseSlot(rig: PipelineRig): Promise<void> {
  await rig.stop();
  await rig.source(`begin; lock table m in exclusive mode; update m set n = -1, far = repeat('missed', 300) where id % 7 = 0; delete from m where id % 11 = 0;
    insert into m select g, 0, 'missed', 'missed' from generate_series(1, 40) g on conflict do nothing;
    update own set v = v || '.' where id < 10; delete from own where id > 95; commit`);
  await dropSlot(rig);
  rig.resumes = true;
}

/** The last row of each key in the history is the table's. */
async function expectHistory(rig: PipelineRig): Promise<void> {
  const last = `select distinct on (id) id, n, text, far, _sm_op from public.m_history where _sm_op <> 't' order by id, _sm_lsn desc, _sm_ordinal desc`;
  const differing = `(select id, n, text, far from (${last}) h where _sm_op <> 'd' except table m)
    union all (table m except select id, n, text, far from (${last}) h where _sm_op <> 'd')`;
  await waitFor(
    "the history to have the table's rows",
    async () => (await rig.sink(differing)).length === 0,
    {
      timeoutMs: 20_000,
    },
  );
}

for (const identity of pick(["default", "full"], (each) => each === "default")) {
  test(`under load, replica identity ${identity}`, async () => {
    await using rig = await streaming(`load_${identity}`, identity);
    for (let round = 0; round < (isWholeMatrix ? 4 : 2); round++) {
      {
        await using _moving = await moveRows(rig, "m", rows, round + 1, false, paceMs);
        await loseSlot(rig);
        rig.start();
        await rig.untilRealtime();
        await proved(rig);
      }
      await rig.expectEqual();
      await expectHistory(rig);
    }
    expect(rig.copies.filter(({ part, table }) => part?.kind !== "rows" && table === "own").length).toBe(1);
    await rig.stop();
  }, 120_000);
}

test("it dies at each of its calls, before and after", async () => {
  await using rig = await streaming("dies");
  for (let calls = 1; calls <= 120; calls += isWholeMatrix ? 13 : 39) {
    {
      await using _moving = await moveRows(rig, "m", rows, calls, false, paceMs);
      await loseSlot(rig);
      rig.start();
      rig.dieAt(calls);
      await waitFor("the run to die, or to be through", async () => rig.isDead || !rig.resumes, {
        timeoutMs: 30_000,
      });
      await rig.crash();
      rig.start();
      await rig.untilRealtime();
      await proved(rig);
    }
    await rig.expectEqual();
    await expectHistory(rig);
  }
  await rig.stop();
}, 300_000);
