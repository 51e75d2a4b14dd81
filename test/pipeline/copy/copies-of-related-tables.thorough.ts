// Tables at a Postgres sink whose rows a copy cannot write one by one: foreign keys are in force, rows of other tables are in them as well, or the sink has one
// session. The stream waits for their copies, and all is right in the end, whatever dies.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import type { IdentifierNaming } from "../../../src/connector/connector.ts";
import { fullConnection } from "../../support/api/connector-config.ts";
import { moveRows, movingRows } from "../../support/loads/moving-rows.ts";
import { variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query("create role unprivileged login");
});
afterAll(() => server[Symbol.asyncDispose]());

const rows = 200;
const inRanges = { dividedFromBytes: 1, rangeBytes: 100_000, pointHeldMs: 20 };
const leftBehind = `select relname from pg_class where relnamespace = 'millrace'::regnamespace and relname ~ '^(copy|chunk|touched|seen|model)_' and relkind = 'r'
  union all select table_id::text from millrace.divided_copy`;
const merged: IdentifierNaming = {
  FivetranNaming: { schema_prefix: null, column_conflict: "Fail", table_conflict: "Merge" },
};

/** Holds what is copied until it is called. */
function hold(rig: PipelineRig): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.copiesHeld = promise;
  return resolve;
}

async function untilNothingIsLeft(rig: PipelineRig): Promise<void> {
  const isClean = async () => (await rig.sink(leftBehind)).length === 0;
  await waitFor("nothing to be left", isClean);
}

/** The role may not switch foreign keys off. */
async function unprivileged(rig: PipelineRig, sql: string): Promise<void> {
  await rig.sink(`grant create, temporary on database "${rig.sinkDatabase}" to unprivileged;
    grant create, usage on schema public to unprivileged; set role unprivileged; ${sql}`);
  rig.sinkUser = "unprivileged";
}

const withOneSession = (name: string): RigOptions => ({
  parallelCopies: 1,
  sink: { connection: fullConnection(server.connection(`${name}_sink`), { max_pool_size: 1 }) },
});

test("first copies of tables with foreign keys in force, those that are referred to first", async () => {
  await using rig = await PipelineRig.create(server, "relatedkeys", {
    parallelCopies: 5,
    copyPace: inRanges,
  });
  const made = `create table parent (id int primary key, v text);
    create table child (id int primary key, parent int not null references parent, v text);
    create table tree (id int primary key, up int references tree, v text);`;
  await unprivileged(rig, made);
  await rig.source("create table other (id int primary key)");
  rig.start();
  await rig.untilRealtime();
  const release = hold(rig);
  const read = rig.copies.length;
  await rig.source(`${made} insert into parent select g, 'v' || g from generate_series(1, 500) g;
    insert into child select g, g, 'v' || g from generate_series(1, 500) g; insert into tree select g, nullif(g / 2, 0), 'v' || g from generate_series(1, 300) g`);
  await waitFor("a table to be read", () => rig.copies.length > read);
  // What is referred to comes and goes with what refers to it.
  await rig.source(`insert into parent values (600, 'new'); insert into child values (600, 600, 'new');
    begin; delete from child where id = 7; delete from parent where id = 7; commit; update child set parent = 600 where id < 5;
    update parent set v = 'later' where id = 9; delete from tree where id > 290; insert into tree values (700, 3, 'new')`);
  release();
  await rig.source("insert into parent values (601, 'newer'); insert into child values (601, 601, 'newer')");
  await rig.expectEqual();
  await untilNothingIsLeft(rig);
  const copied = rig.copies.slice(read);
  const names = copied.map(({ table }) => table);
  expect(names.lastIndexOf("parent")).toBeLessThan(names.indexOf("child"));
  // None was made once more.
  expect(new Set(copied.map((copy) => JSON.stringify([copy.table, copy.part]))).size).toBe(copied.length);
  await rig.stop();
});

test("copies that replace rows remove what others refer to behind them, again and again", async () => {
  await using rig = await PipelineRig.create(server, "relatedstale", {
    parallelCopies: 5,
    copyPace: inRanges,
  });
  const made = `create table a (id int primary key, v text);
    create table b (id int primary key, a int not null references a, v text);
    create table c (id int primary key, b int references b, up int references c, v text);
    create table tree (id int primary key, up int references tree, slug text unique);`;
  await unprivileged(rig, made);
  await rig.source(`${made} insert into a select g, 'v' from generate_series(1, 50) g;
    insert into b select g, g, 'v' from generate_series(1, 50) g; insert into c select g, g, nullif(g / 2, 0), 'v' from generate_series(1, 50) g;
    insert into tree select g, nullif(g / 2, 0), 's' || g from generate_series(1, 50) g`);
  rig.start();
  await rig.untilRealtime();
  await rig.expectEqual();
  for (const gone of [50, 49]) {
    await rig.stop();
    await rig.source(`delete from c where id = ${gone}; delete from b where id = ${gone}; delete from a where id = ${gone};
      update b set a = 1 where id = ${gone - 10}; delete from a where id = ${gone - 10}; insert into a values (${gone + 100}, 'new');
      insert into b values (${gone + 100}, ${gone + 100}, 'new');
      delete from tree where id = ${gone}; insert into tree values (${gone + 100}, 1, 's${gone}')`);
    // As ReInitialize does: everything is copied again.
    rig.initialized = false;
    rig.start();
    await rig.untilRealtime();
    await rig.expectEqual();
  }
  await rig.source("delete from c where id = 48; delete from b where id = 48; delete from a where id = 48");
  await rig.expectEqual();
  await rig.stop();
});

test("a task for a table that refers to others copies no row ahead of what it refers to", async () => {
  const made = `create table parent (id int primary key); create table child (id int primary key, parent int references parent);`;
  await using rig = await PipelineRig.create(server, "relatedahead");
  await unprivileged(rig, made);
  await rig.source(`${made} insert into parent values (1); insert into child values (1, 1)`);
  rig.start();
  await rig.untilRealtime();
  let isOver = false;
  const pairs = (async () => {
    for (let id = 2; !isOver; id++)
      await rig.source(`insert into parent values (${id}); insert into child values (${id}, ${id})`);
  })();
  const outcomes: unknown[] = [];
  for (const truncates of [false, true, false, true, false])
    outcomes.push(await rig.snapshot("child", truncates));
  isOver = true;
  await pairs;
  expect(outcomes).toEqual([null, null, null, null, null]);
  await rig.expectEqual();
  await rig.stop();
});

test("copies of merged tables, between which rows move", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "relatedmerged",
    {
      source: `create table "Orders" (id int primary key, a text, far text);
        insert into "Orders" select g, 'A' || g, 'far' from generate_series(1, 200) g`,
    },
    { naming: merged, parallelCopies: 5, copyPace: inRanges },
  );
  const all = `select id, a, null as b, far from "Orders" union all select id, null, b, null from orders order by id`;
  const same = () =>
    waitFor("both tables to be there", async () => {
      const atSink = await rig.sink("select id, a, b, far from orders order by id").catch(() => []);
      return Bun.deepEquals(atSink, await rig.source(all));
    });
  const firstRelease = hold(rig);
  let read = rig.copies.length;
  await rig.source(
    "create table orders (id int primary key, b text); insert into orders select g, 'B' || g from generate_series(1001, 1200) g",
  );
  await waitFor("the table to be read", () => rig.copies.length > read);
  const change = (n: number) =>
    rig.source(`begin; delete from "Orders" where id = ${n}; insert into orders values (${n}, 'moved'); commit;
      begin; delete from orders where id = ${1000 + n}; insert into "Orders" values (${1000 + n}, 'moved', 'x'); commit;
      update "Orders" set a = 'later' where id = ${10 + n}; update orders set b = 'later' where id = ${1010 + n};
      delete from orders where id = ${1020 + n}; update "Orders" set id = ${2000 + n} where id = ${30 + n}`);
  await change(1);
  firstRelease();
  await same();
  await rig.sink(`update orders set a = 'wrong' where id between 50 and 60; delete from orders where id between 1050 and 1060;
    update orders set b = 'wrong' where id between 1040 and 1045; insert into orders values (9999, null, null, 'extra')`);
  const release = hold(rig);
  read = rig.copies.length;
  const tasks = [rig.snapshot("orders", true), rig.snapshot("Orders", true)];
  await waitFor("one of them to be read", () => rig.copies.length > read);
  await change(2);
  release();
  expect(await Promise.all(tasks)).toEqual([null, null]);
  // Whose row it was nobody knows.
  expect(await rig.sink("delete from orders where id = 9999 returning id")).toEqual([{ id: 9999 }]);
  await same();
  await untilNothingIsLeft(rig);
  await rig.stop();
});

test("with one session at the sink the stream waits for a copy, and goes on behind it", async () => {
  await using rig = await PipelineRig.streaming(
    server,
    "relatedlone",
    { source: "create table other (id serial primary key, at timestamptz default clock_timestamp())" },
    { ...withOneSession("relatedlone"), copyPace: inRanges },
  );
  const release = hold(rig);
  const read = rig.copies.length;
  await rig.source(movingRows("m", rows));
  await waitFor("the table to be read", () => rig.copies.length > read);
  await rig.source("insert into other default values; update m set n = 1 where id < 10");
  release();
  await rig.expectSame("select id from other");
  await rig.expectEqual();
  await rig.sink(
    "update m set text = 'wrong' where id % 7 = 0; delete from m where id % 5 = 0; insert into m values (9999, 0, '', '')",
  );
  const again = hold(rig);
  const before = rig.copies.length;
  const task = rig.snapshot("m", true);
  await waitFor("the table to be read", () => rig.copies.length > before);
  await rig.source("insert into other default values; update m set n = 2 where id < 20");
  again();
  expect(await task).toBeNull();
  await rig.expectEqual();
  await untilNothingIsLeft(rig);
  await rig.stop();
});

const only = (...names: readonly string[]): Catalog => ({
  name: "any",
  default_action: "Exclude",
  schemas: [
    {
      name: "public",
      action: "Exclude",
      tables: names.map((name) => ({ name, action: "Include", history_enabled: false, columns: [] })),
    },
  ],
});

type Kind = "foreign keys" | "merged" | "one session" | "another unique index";
const everyday: readonly (readonly [Kind, seed: number, isReplacing: boolean])[] = [
  ["foreign keys", 3, true],
  ["merged", 4, true],
  ["another unique index", 7, false],
];
const others: typeof everyday = [
  ["one session", 5, true],
  ["another unique index", 6, true],
  ["foreign keys", 8, false],
];

test.each(variants(everyday, others))(
  "a first copy and tasks that die again and again amid changes (%s, %i, replacing: %p)",
  async (kind, seed, truncate) => {
    const name = `relateddies${seed}`;
    await using rig = await PipelineRig.create(server, name, {
      ...(kind === "one session" ? withOneSession(name) : { parallelCopies: 5 }),
      ...(kind === "merged" ? { naming: merged } : {}),
      copyPace: inRanges,
      isSupervised: true,
      tasksGoOn: true,
      source: { catalog: only("other", "M") },
    });
    await rig.source(`create table other (id serial primary key); ${movingRows("m", rows)};
    create table "M" (id int primary key, n int); insert into "M" select g from generate_series(100001, 100050) g`);
    if (kind === "foreign keys") {
      await unprivileged(
        rig,
        `create table m (id int primary key, n int not null, text text not null, far text not null); create table refers (m int references m)`,
      );
    }
    if (kind === "another unique index") {
      await rig.sink(
        "create table m (id int primary key, n int not null, text text not null, far text not null, unique (n, id))",
      );
    }
    rig.start();
    await rig.untilRealtime();
    await rig.stop();
    rig.reconfigure({ catalog: only("other", "M", "m") });
    rig.start();
    const same = () =>
      waitFor("the table to be right", async () => {
        const columns = "select id, n, text, far from m where id < 100000 order by id";
        const atSink = await rig.sink(columns).catch(() => []);
        return Bun.deepEquals(atSink, await rig.source(columns));
      });
    const die = async (calls: number) => {
      rig.dieAt(calls);
      const ended = rig.ended();
      await waitFor("the end", async () => rig.isDead);
      await ended;
      rig.start();
    };
    {
      await using _moving = await moveRows(rig, "m", rows, seed);
      for (const calls of [14, 31]) await die(calls + seed);
      rig.dieAt(Number.POSITIVE_INFINITY);
    }
    await same();
    {
      await using _moving = await moveRows(rig, "m", rows, seed + 1);
      // None of the rows that move: the run would end of those that are gone.
      await rig.sink(
        "update m set text = 'wrong' where id % 7 = 0; delete from m where id % 5 = 0 and id <= 50",
      );
      void rig.snapshot("m", truncate);
      await die(27 + seed);
      rig.dieAt(Number.POSITIVE_INFINITY);
      expect(await rig.snapshot("m", truncate)).toBeNull();
    }
    await same();
    await rig.source("insert into other default values");
    await rig.expectSame("select id from other order by id");
    await untilNothingIsLeft(rig);
    await rig.stop();
  },
);
