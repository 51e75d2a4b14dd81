// What Resume costs after a lost slot with 1 % of the rows changed, against a copy of everything: time, and log that the sink writes. The ratios count:
// servers and millrace share a machine.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const rows = Number(process.env.MILLRACE_ROWS ?? 5_000_000);
/** Of the log that a copy into a new table writes. ReInitialize leaves rows alone that are right, as Resume does. */
const mostOfNewCopy = 1 / 3;
const limitMs = 1_800_000;

const stack = new AsyncDisposableStack();
let server: PostgresServer;
let sinkServer: PostgresServer;

beforeAll(async () => {
  // Images of whole pages say how long ago the last checkpoint was, and nothing of who writes.
  const settings = { fsync: "off", full_page_writes: "off", max_wal_size: "8GB", shared_buffers: "256MB" };
  server = stack.use(await PostgresServer.start({ settings }));
  sinkServer = stack.use(await PostgresServer.start({ settings }));
});
afterAll(() => stack.disposeAsync());

interface Cost {
  readonly seconds: number;
  readonly sinkMegabytes: number;
}

async function costOf(work: () => Promise<void>): Promise<Cost> {
  const place = async () => {
    const [row] = await sinkServer.query<{ at: number }>(
      "select (pg_current_wal_lsn() - '0/0')::float8 as at",
    );
    return row?.at ?? 0;
  };
  await sinkServer.query("checkpoint");
  const [began, from] = [performance.now(), await place()];
  await work();
  return {
    seconds: (performance.now() - began) / 1000,
    sinkMegabytes: ((await place()) - from) / 1024 ** 2,
  };
}

async function loseSlot(rig: PipelineRig, seed: number): Promise<void> {
  await rig.stop();
  await rig.source(`update t set n = n + 1, note = md5('${seed}' || id) where id % 200 = ${seed};
    delete from t where id % 400 = ${seed + 10};
    insert into t select ${rows} * ${seed} + g, 0, 'new', now(), 1.5, gen_random_uuid(), true from generate_series(1, ${rows / 400}) g`);
  await rig.source(`select pg_drop_replication_slot('${rig.slot}')`);
}

test(
  `1 % of ${rows} rows`,
  async () => {
    await using rig = await PipelineRig.create(server, "cost", { sinkServer });
    await rig.source(`create table t (id bigint primary key, n int, note text, at timestamptz, amount numeric, ref uuid, ok bool);
    insert into t select g, 0, md5(g::text), now(), g * 1.25, gen_random_uuid(), g % 2 = 0 from generate_series(1, ${rows}) g; analyze t`);
    const first = await costOf(async () => {
      rig.start();
      await waitFor("the first copy", () => rig.phases.at(-1)?.phase.name === "realtime", {
        timeoutMs: limitMs,
      });
    });
    await loseSlot(rig, 1);
    const resumed = await costOf(async () => {
      rig.resumes = true;
      rig.start();
      await rig.untilRealtime();
      const unproved = "select from millrace.table_copy where is_unproved";
      await waitFor("the proof", async () => (await rig.sink(unproved)).length === 0, { timeoutMs: limitMs });
    });
    const differing = await rig.verify("t");
    expect(differing).toMatchObject({ missing: 0, extra: 0, changed: 0 });
    await loseSlot(rig, 2);
    const copied = await costOf(async () => {
      rig.initialized = false;
      rig.start();
      await waitFor("the copy", () => rig.initialized && rig.phases.at(-1)?.phase.name === "realtime", {
        timeoutMs: limitMs,
      });
    });
    const ofNewCopy = resumed.sinkMegabytes / first.sinkMegabytes;
    const ofReInitialize = {
      seconds: resumed.seconds / copied.seconds,
      sinkMegabytes: resumed.sinkMegabytes / copied.sinkMegabytes,
    };
    console.log({ rows, first, resumed, copied, ofNewCopy, ofReInitialize });
    await rig.stop();
    expect(ofNewCopy).toBeLessThan(mostOfNewCopy);
  },
  limitMs * 3,
);
