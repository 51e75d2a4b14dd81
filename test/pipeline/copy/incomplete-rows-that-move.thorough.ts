// Rows that are incomplete at the sink, and what becomes of them before they are copied by their keys: they move to other keys, their table
// gets another key, or may not be read.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { postgresSource } from "../../support/api/connector-config.ts";
import { movingRows } from "../../support/loads/moving-rows.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** The sink's rows have a wrong large value, and the stream brings all rows in part while the task reads them. */
async function begin(rig: PipelineRig) {
  await rig.sink("update m set far = 'wrong'");
  const first = Promise.withResolvers<void>();
  rig.copiesHeld = first.promise;
  const before = rig.copies.length;
  const task = rig.snapshot("m", true);
  await waitFor("the copy to be read", () => rig.copies.length > before);
  await rig.source("update m set n = 1");
  await waitFor(
    "the changes",
    async () => (await rig.sink("select from m where n <> 1 limit 1")).length === 0,
  );
  return { task, go: first.resolve };
}

const wrong = (rig: PipelineRig) => rig.sink("select id from m where far = 'wrong' order by 1");

const toCode = (failure: unknown) => (failure === null ? null : (failure as MillraceError).code);

async function settled(rig: PipelineRig) {
  await waitFor(
    "nothing to be incomplete",
    async () => (await rig.sink("select from millrace.owed_row limit 1")).length === 0,
    { timeoutMs: 20_000 },
  );
}

test("more rows than are copied at once: those that wait for their turn move to other keys", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "moved_many",
    { source: movingRows("m", 10_400) },
    { parallelCopies: 5 },
  );
  const { task, go } = await begin(rig);
  rig.beforePoint = async () => {
    rig.beforePoint = async () => {};
    await rig.source("begin; update m set id = id + 20000 where id % 130 = 0; commit");
  };
  go();
  expect(await task).toBeNull();
  await settled(rig);
  expect(await wrong(rig)).toEqual([]);
  await rig.stop();
});

test("no point can be had for the incomplete rows at first, and one moves to another key meanwhile", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "moved_point",
    { source: movingRows("m", 100) },
    { parallelCopies: 5 },
  );
  const { task, go } = await begin(rig);
  rig.beforePoint = async () => {
    rig.beforePoint = async () => {};
    await rig.source("update m set id = 600 where id = 60");
    throw new MillraceError("slots_exhausted", "no slot is free");
  };
  go();
  expect(await task).toMatchObject({ code: "slots_exhausted" });
  await rig.source("update m set n = 2 where id = 1");
  await waitFor("2", async () => (await rig.sink("select from m where id = 1 and n = 2")).length > 0);
  await settled(rig);
  // The rows that were read by their keys are ahead of the stream, which still has to bring that one has moved.
  await rig.expectEqual();
  expect(await wrong(rig)).toEqual([]);
  await rig.stop();
});

test("the run dies between finish and takeRows, and the next batch reaches from before the point to behind it", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "moved_die",
    { source: movingRows("m", 100) },
    { parallelCopies: 5 },
  );
  const { go } = await begin(rig);
  const died = Promise.withResolvers<void>();
  rig.beforePoint = async () => {
    rig.beforePoint = async () => {};
    await rig.source("update m set id = 600 where id = 60");
    void rig.crash().then(died.resolve);
    throw new Error("crash");
  };
  go();
  await died.promise;
  rig.start();
  await rig.untilRealtime();
  await rig.source("update m set n = 2 where id = 1");
  await waitFor("2", async () => (await rig.sink("select from m where id = 1 and n = 2")).length > 0);
  await settled(rig);
  expect(await wrong(rig)).toEqual([]);
  await rig.stop();
}, 60_000);

test("the key becomes another one before incomplete rows are read", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "moved_key",
    { source: movingRows("m", 100) },
    { parallelCopies: 5, isSupervised: true, tasksGoOn: true },
  );
  const { task, go } = await begin(rig);
  rig.beforePoint = async () => {
    rig.beforePoint = async () => {};
    await rig.source("alter table m drop constraint m_pkey, add primary key (id, n)");
  };
  go();
  // The task may find the table altered before its rows are read.
  expect([null, "table_changed"]).toContain(toCode(await task));
  await rig.source("update m set n = n + 1 where id = 1; insert into m values (1000, 1, 'x', 'y')");
  await waitFor("1000", async () => (await rig.sink("select from m where id = 1000")).length > 0);
  await settled(rig);
  await waitFor("whole rows", async () => (await wrong(rig)).length === 0);
  await rig.stop();
});

test("a table that cannot be read when its incomplete rows are to be read is not asked for all the time", async () => {
  await server.query("create role reader login replication");
  const name = "moved_deny";
  const database = `${name}_source`;
  await using rig = await PipelineRig.create(server, name, {
    parallelCopies: 5,
    source: { connection: postgresSource({ ...server.connection(database), user: "reader" }).connection },
  });
  await rig.source(
    `grant create on database ${database} to reader; ${movingRows("m", 100)}; alter table m owner to reader`,
  );
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  const { task, go } = await begin(rig);
  let points = 0;
  const count = async () => {
    points++;
  };
  rig.beforePoint = async () => {
    rig.beforePoint = count;
    await rig.source("revoke select on m from reader; update m set id = 600 where id = 60");
  };
  go();
  expect(await task).toMatchObject({ code: "source_permission_denied" });
  await rig.source("grant select on m to reader");
  await waitFor("whole rows", async () => (await wrong(rig)).length === 0, { timeoutMs: 20_000 });
  expect(await rig.difference()).toEqual({});
  expect(points).toBeLessThan(10);
  await rig.stop();
});
