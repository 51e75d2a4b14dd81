// Partitioned tables, carried as their leaves and as their root: whatever is done to the partitions, and to the rows in them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

/** With a leaf that was attached (its columns in another order, one dropped), sub-partitions, a default and a large value. */
const tables = `
create table p (id int primary key, v text, big text) partition by range (id);
create table p1 partition of p for values from (0) to (100);
create table p2 (big text, gone int, v text, id int not null); alter table p2 drop column gone; alter table p2 add primary key (id);
alter table p attach partition p2 for values from (100) to (200);
create table p3 partition of p for values from (300) to (400) partition by range (id);
create table p3a partition of p3 for values from (300) to (350); create table p3b partition of p3 for values from (350) to (400);
alter table p1 alter big set storage external; alter table p2 alter big set storage external; alter table p3a alter big set storage external;
create table pd partition of p default`;
const rows = `insert into p select g * 10, 'v' || g, repeat('b', 3000) from generate_series(0, 19) g;
insert into p select g, 'w', null from generate_series(300, 399, 7) g; insert into p values (900, 'd', null)`;
const rootRows = "select row(id, v, big)::text as row from p order by id";
const plain = (name: string) => `create table ${name} (id int primary key, v text, big text)`;

describe.each(["leaves", "root"] as const)("as %s", (mode) => {
  // One pipeline for all of them: each goes on with what the one before has left.
  let pair: PipelineRig;
  const expectEqual = () => (mode === "root" ? pair.expectSame(rootRows) : pair.expectEqual());
  const expectNoCopy = async (action: () => Promise<unknown>) => {
    const copies = () =>
      pair.phases.filter(({ phase }) => phase.name === "snapshot" && phase.table === "public.p").length;
    const before = copies();
    await action();
    expect(copies()).toBe(before);
  };
  beforeAll(async () => {
    pair = await PipelineRig.create(server, `part_${mode}`, {
      source: { partitions_as_root: mode === "root" },
      isSupervised: true,
    });
    await pair.source(`${tables}; ${rows}`);
    pair.start();
    await pair.untilRealtime();
  });
  afterAll(async () => {
    await pair.stop();
    await pair[Symbol.asyncDispose]();
  });

  test("rows that change, and that move from partition to partition", async () => {
    await pair.source(`
      insert into p values (101, 'new', repeat('n', 3000)), (5, null, null);
      update p set v = 'u' where id in (10, 110, 300, 900);
      begin; update p set id = id + 101 where id in (20, 30); update p set v = 'moved' where id > 120 and id < 140;
      update p set id = 42 where id = 121; delete from p where id = 131; insert into p values (131, 'again', null); commit;
      update p set id = id + 50, v = 'into the other sub-partition' where id = 300; update p set id = 901 where id = 40;
      delete from p where id in (50, 150)`);
    await expectEqual();
  });

  test("a partition that is made is taken in without another copy", async () => {
    await expectNoCopy(async () => {
      await pair.source(`begin; create table n partition of p for values from (500) to (600); insert into p values (500, 'n', null); commit;
        create table m partition of p for values from (600) to (700); insert into p values (501, 'o', null); update p set v = 'U' where id = 500`);
      await pair.source("insert into p values (601, 'o', null)");
      await expectEqual();
      await pair.stop();
      await pair.source(`create table o partition of p for values from (700) to (800) partition by range (id);
        create table o1 partition of o default; insert into p values (701, 'o', null); ${plain("e")}; alter table p attach partition e for values from (800) to (850)`);
      pair.start();
      await expectEqual();
      await pair.source("insert into p values (602, 'o', null), (801, 'e', null)");
      await expectEqual();
    });
  });

  test("TRUNCATE of the root, of a leaf, of a sub-tree", async () => {
    await pair.source(
      "begin; insert into p values (1, 'x', null); truncate p3; insert into p values (301, 'y', null); commit",
    );
    await expectEqual();
    await pair.source("truncate p1; insert into p values (2, 'z', null)");
    await expectEqual();
    await pair.source(
      "begin; insert into p values (3, 'x', null); truncate p; insert into p values (3, 'y', null); commit",
    );
    await expectEqual();
    await pair.source(`truncate p; ${rows}`);
    await expectEqual();
  });

  test("a partition with rows is attached, also in the transaction that made it", async () => {
    await pair.source(`${plain("a")}; insert into a values (1000, 'n', null), (1001, 'm', null);
      alter table p attach partition a for values from (1000) to (1100)`);
    await pair.source("insert into p values (1002, 'o', null); update p set v = 'U' where id = 1000");
    await expectEqual();
    await pair.source("update p set v = 'later' where id = 1001; delete from p where id = 1000");
    await pair.source(`begin; ${plain("b")}; insert into b values (1100, 'n', null);
      alter table p attach partition b for values from (1100) to (1200); commit`);
    await expectEqual();
  });

  test("a partition is detached, in both ways, changed beside its root, and attached again", async () => {
    await pair.source("alter table p detach partition p1; update p1 set v = 'z' where id = 10");
    await expectEqual();
    // Not possible beside a default partition.
    await pair.source("drop table pd");
    await pair.source("alter table p detach partition p3 concurrently");
    await pair.source("update p3 set v = 'y'; delete from p1 where id < 40");
    await expectEqual();
    await pair.source(
      "alter table p attach partition p1 for values from (0) to (100); update p set v = 'back', big = 'x' where id = 50",
    );
    await expectEqual();
    if (mode === "root") {
      await pair.source("drop table n");
      await expectEqual();
    }
  });

  test("partitions come and go while nobody looks", async () => {
    await pair.stop();
    await using slow = await server.connect(pair.sourceDatabase);
    await slow.query("begin; select pg_current_xact_id()");
    // Its rows' transaction is later than the one that attaches them, and committed before.
    await pair.source(`${plain("l")}; insert into l values (1300, 'n', null)`);
    await slow.query("alter table p attach partition l for values from (1300) to (1400); commit");
    await pair.source(`
      update p set v = 'U' where id = 1300;
      alter table p detach partition p1; delete from p1; alter table p attach partition p1 for values from (0) to (100);
      alter table p detach partition b; delete from b; insert into b values (1101, 'while away', null); alter table p attach partition b for values from (1100) to (1200);
      create table s (id int primary key, v text, big text) partition by range (id); create table s1 partition of s for values from (1400) to (1450);
      alter table s1 alter big set storage external; insert into s values (1401, 's', repeat('s', 3000)), (1402, 's', repeat('t', 3000));
      alter table p attach partition s for values from (1400) to (1500); update p set v = 'part of it' where id = 1401; update p set id = 1403 where id = 1402;
      alter table p detach partition a; ${mode === "root" ? "drop table a" : "delete from a"}; truncate m`);
    pair.start();
    await expectEqual();
  });

  test("the root's key is no key of a leaf that has another replica identity", async () => {
    await pair.source(`alter table p1 replica identity full; create unique index on p2 (id, v); alter table p2 alter v set not null;
      alter table p2 replica identity using index p2_id_v_idx; insert into p select g, 'v', 'b' from generate_series(0, 90, 10) g`);
    await pair.source(
      "update p set v = v || 'q' where id < 400; update p set id = 77 where id = 10; delete from p where id in (20, 110)",
    );
    await expectEqual();
  });
});

test("a root without partitions is copied as well, and so is what has lost its last", async () => {
  await using pair = await PipelineRig.create(server, "bare", { source: { partitions_as_root: true } });
  const root = "(id int primary key) partition by range (id)";
  await pair.source(`create table p ${root}; create table q ${root}; create table q1 partition of q default;
    insert into q values (1); create table other (id int primary key)`);
  pair.start();
  await pair.untilRealtime();
  await pair.source("create table p1 partition of p default; insert into p values (1); drop table q1");
  await pair.source("insert into p values (2); insert into other values (1)");
  for (const table of ["other", "p", "q"]) await pair.expectSame(`select id from ${table} order by id`);
  expect(await pair.snapshot("q", true)).toBeNull();
  await pair.expectSame("select id from q");
  await pair.stop();
});

test("a partition that is not logged is named", async () => {
  await using pair = await PipelineRig.create(server, "unlogged", {
    source: { partitions_as_root: true },
    isSupervised: true,
  });
  await pair.source(`${tables}; create unlogged table u partition of p for values from (2000) to (2100)`);
  pair.start();
  await pair.untilRealtime();
  expect(pair.warnings.join()).toContain('ALTER TABLE "public"."u" SET LOGGED;');
  await pair.source("insert into p values (2000, 'u', null); alter table u set logged");
  await pair.expectSame(rootRows);
  await pair.stop();
});

test("leaves that do not say which row of the root they change: the application's statements go on, and people are told", async () => {
  await using pair = await PipelineRig.create(server, "unfit", {
    source: { partitions_as_root: true },
    isSupervised: true,
  });
  await pair.source(`${tables}; ${rows}; alter table p1 replica identity nothing; alter table p2 alter v set not null;
    create unique index by_v on p2 (v) include (id); alter table p2 replica identity using index by_v`);
  pair.start();
  await pair.untilRealtime();
  await pair.source(
    "update p set v = v || 'q' where id < 200; delete from p where id in (30, 130); insert into p values (399, 'i', null)",
  );
  await waitFor("the insert", async () => (await pair.sink("select from p where id = 399")).length === 1);
  const mend = () => pair.warnings.map((reason) => /Run: (.*)$/.exec(reason)?.[1]);
  expect(mend()).toEqual(['ALTER TABLE "public"."p1" REPLICA IDENTITY FULL;']);
  // A row, so that the source's log moves on and the tables are looked at.
  await pair.source(`${mend()[0]}; insert into p values (396, 'i', null)`);
  await waitFor("the other one", () => mend().length === 2);
  await pair.source(`${mend()[1]}; insert into p values (397, 'i', null)`);
  await pair.expectSame(rootRows);
  await pair.source("update p set v = v || 'q' where id < 200; delete from p where id in (40, 140)");
  await pair.expectSame(rootRows);
  await pair.stop();
});

test("partitions_as_root is switched, and switched back", async () => {
  const options: RigOptions = { isSupervised: true };
  await using pair = await PipelineRig.create(server, "switched", options);
  await pair.source(`${tables}; ${rows}`);
  pair.start();
  await pair.expectEqual();
  await pair.stop();
  await pair.source("update p set v = 'before' where id < 50; delete from p where id = 60");
  options.source = { partitions_as_root: true };
  pair.start();
  await pair.expectSame(rootRows);
  await pair.source("update p set v = 'as root' where id < 50; delete from p where id = 70; truncate p3");
  await pair.expectSame(rootRows);
  await pair.stop();
  await pair.source("update p set v = 'after' where id < 50; delete from p where id = 80");
  options.source = {};
  pair.start();
  await pair.expectEqual();
  await pair.source("insert into p values (80, 'last', null)");
  await pair.expectEqual();
  await pair.stop();
});

test("a column that is added to the root with a default: its old rows have the value, or people are told", async () => {
  await using pair = await PipelineRig.create(server, "added", {
    source: { partitions_as_root: true },
    isSupervised: true,
  });
  await pair.source(`${tables}; ${rows}`);
  pair.start();
  await pair.untilRealtime();
  const all = "select to_jsonb(p)::text as row from p order by id";
  await pair.source("alter table p add column z int default 7");
  await pair.expectSame(all);
  await pair.stop();
  // A column's privileges are written to the root's entry alone.
  await pair.source("alter table p add column a text default 'it''s'");
  await pair.source(`grant select (a) on p to public; alter table p add column b int default 8; create table q partition of p for values from (1500) to (1600);
    insert into p (id, a, b) values (1500, 'new', null)`);
  pair.start();
  await pair.expectSame(all.replace("p)", "p) - 'a'"));
  expect(pair.silentChanges).toContain("Table public.p: column a was added with a default");
  expect(await pair.snapshot("p", true)).toBeNull();
  await pair.expectSame(all);
  await waitFor("the warning to be over", () => pair.silentChanges === "");
  await pair.stop();
  // A partition brings a value of its own that the root's rows have not got.
  await pair.source("create table r (like p); alter table r add column c int default 9");
  await pair.source("alter table p add column c int");
  await pair.source(`alter table p attach partition r for values from (1600) to (1700);
    insert into p (id) values (1600)`);
  pair.start();
  await pair.expectSame(all);
  await pair.stop();
});
