// Rows that are mended are given to the history of their table alone: it is not compared with the whole table, which the stream would wait for.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { told, untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const rows = 2000;

/** How often a history was compared with its table. */
const comparisons = (rig: PipelineRig) =>
  rig.phases.filter(
    ({ health }) => health.kind === "warning" && health.reason.includes("is compared with its rows"),
  ).length;

test("the history gets what it lacks of the rows that are mended, and nothing else", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "mended",
    {
      source: `create table t (id int, "k 2" text, v text, primary key (id, "k 2"));
        insert into t select g, 'k' || g, 'v' || g from generate_series(1, ${rows}) g`,
    },
    { source: { catalog: withHistory("t") } },
  );
  await untilTold(rig, "id", "t_history", rows);
  const before = comparisons(rig);

  // The history is right: what somebody did to the table is no change of the source.
  await rig.sink(
    "delete from t where id = 1; update t set v = 'damaged' where id = 2; insert into t values (-1, 'k', 'nobody')",
  );
  expect(await rig.verify("t", "Apply")).toMatchObject({ missing: 1, changed: 1, extra: 1, repaired: 3 });
  expect((await told(rig, "id, v", "t_history")).length).toBe(rows);

  // It has what somebody did: both are mended.
  await rig.sink(`update t set v = 'damaged' where id = 3; update t_history set v = 'damaged' where id = 3;
    delete from t where id = 4; delete from t_history where id = 4;
    insert into t values (-2, 'k', 'nobody');
    insert into t_history select -2, 'k', 'nobody', 'c', _sm_committed_at, _sm_lsn, 7 from t_history where id = 5`);
  expect(await rig.verify("t", "Apply")).toMatchObject({ missing: 1, changed: 1, extra: 1, repaired: 3 });
  const mended = (await told(rig, 'id, "k 2", v', "t_history")).slice(rows);
  expect(mended.toSorted()).toEqual(["d -2|k|nobody", "r 3|k3|v3", "r 4|k4|v4"]);

  await rig.source("update t set v = 'later' where id in (3, 4)");
  expect((await untilTold(rig, "id, v", "t_history", rows + 5)).slice(rows + 3)).toEqual([
    "u 3|later",
    "u 4|later",
  ]);
  await rig.expectEqual();
  expect(
    await rig.sink(
      `select id, v, valid_to = 'infinity' as "isLast" from t_versions where id in (-2, 3) order by valid_from, id`,
    ),
  ).toEqual([
    { id: -2, v: "nobody", isLast: false },
    { id: 3, v: "damaged", isLast: false },
    { id: 3, v: "v3", isLast: false },
    { id: 3, v: "later", isLast: true },
  ]);
  expect(comparisons(rig)).toBe(before);
  await rig.stop();
});

test("rows that the source changes while they are mended have each change once in the history", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "mended2",
    {
      source: `create table t (id int primary key, v text); insert into t select g, 'v' from generate_series(1, ${rows}) g`,
    },
    { source: { catalog: withHistory("t") } },
  );
  await untilTold(rig, "id", "t_history", rows);
  await rig.sink("update t set v = 'damaged'");

  const changed = { u: 0, d: 0 };
  let isOver = false;
  const load = async (remainder: number) => {
    await using session = await rig.sourceSession();
    for (let n = 0; !isOver; n++) {
      const id = 1 + ((n * 8 + remainder) % rows);
      const op = n % 4 === 0 ? "d" : "u";
      const sql = op === "d" ? "delete from t" : `update t set v = 'v${n}'`;
      const { rowCount } = await session.query(`${sql} where id = ${id}`);
      changed[op] += rowCount ?? 0;
    }
  };
  const loads = [load(0), load(1), load(2)];
  await rig.verify("t", "Apply");
  isOver = true;
  await Promise.all(loads);
  const count = rows + changed.u + changed.d;
  await untilTold(rig, "id", "t_history", count);
  await rig.expectEqual();
  const ops = await rig.sink(
    "select _sm_op as op, count(*)::int as rows from t_history group by 1 order by 1",
  );
  expect(ops).toEqual([
    { op: "d", rows: changed.d },
    { op: "r", rows },
    { op: "u", rows: changed.u },
  ]);
  await rig.stop();
});
