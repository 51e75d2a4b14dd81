// Generated columns at a Postgres sink: computed there as at the source, sent where the server publishes them, or left out
// with a warning.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { matrixTest, testEveryDay, variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

const servers = new Map<number, PostgresServer>();
const majors = [14, 17, 18];
const newest = 18;
beforeAll(async () => {
  for (const major of majors) {
    servers.set(major, await PostgresServer.start({ major, settings: { fsync: "off" } }));
  }
});
afterAll(async () => {
  for (const server of servers.values()) await server[Symbol.asyncDispose]();
});
const server = (major: number) => servers.get(major)!;

let count = 0;
const create = (major: number, options: RigOptions = {}) =>
  PipelineRig.create(server(major), `gen_${++count}`, { isSupervised: true, ...options });

/** Tables at the source, and at the sink, and a run that streams. */
async function streaming(
  major: number,
  sql: string,
  options: RigOptions = {},
  atSink = "",
): Promise<PipelineRig> {
  const rig = await create(major, options);
  await rig.source(sql);
  if (atSink !== "") await rig.sink(atSink);
  rig.start();
  await rig.untilRealtime();
  return rig;
}

/** Columns as `name kind`, in order; the kind is `s`, `v`, or `-` for an ordinary one. */
async function columns(rig: PipelineRig, table = "t"): Promise<string> {
  const rows = await rig.sink<{ text: string }>(
    `select attname || ' ' || coalesce(nullif(attgenerated::text, ''), '-') as text from pg_attribute
     where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped order by attnum`,
  );
  return rows.map(({ text }) => text).join(", ");
}

const untilColumns = (rig: PipelineRig, wanted: string, table = "t") =>
  waitFor("the columns", async () => (await columns(rig, table)) === wanted, { timeoutMs: 20_000 }).catch(
    async () => expect(await columns(rig, table)).toBe(wanted),
  );

const table = `create table t (id int primary key, a int, g int generated always as (a * 2) stored, name text,
  full_name text generated always as (upper(coalesce(name, '?')) || '!') stored);
  insert into t (id, a, name) select i, i, 'n' || i from generate_series(1, 5) i`;
const changes =
  "insert into t (id, a, name) values (6, 6, 'six'); update t set a = 100, name = null where id = 1; delete from t where id = 2";
const own = (publication: string) => ({
  source: { replication_type: { logical_replication: logicalReplication(publication) } },
});

function catalog(columnsOf: Catalog["schemas"][number]["tables"][number]["columns"]): Catalog {
  const tables = [{ name: "t", action: "Include" as const, history_enabled: false, columns: columnsOf }];
  return {
    name: "db",
    default_action: "Include",
    column_hashing: { algorithm: "Sha256", salt: "s" },
    schemas: [{ name: "public", action: "Include", tables }],
  };
}

describe.each(variants([14, newest], [17]))("of PostgreSQL %i", (major) => {
  /** What the versions do alike, the newest shows every day. */
  const testAlike = testEveryDay(major === newest);

  testAlike("stored ones are computed at the sink, by copies and by the stream", async () => {
    await using rig = await streaming(major, table);
    expect(await columns(rig)).toBe("id -, a -, g s, name -, full_name s");
    await rig.source(changes);
    await rig.expectEqual();
    expect(await rig.snapshot("t", true)).toBeNull();
    await rig.source("update t set a = a + 1");
    await rig.expectEqual();
    await rig.stop();
    expect(rig.warnings).toEqual([]);
    // Another run finds them as they are.
    rig.start();
    await rig.source("insert into t (id, a) values (9, 9)");
    await rig.expectEqual();
    await rig.stop();
    expect(rig.warnings).toEqual([]);
  });

  testAlike("they follow what is done to them at the source", async () => {
    await using rig = await streaming(major, table);
    const plain = "id -, a -, g s, name -, full_name s";
    await rig.source("alter table t rename a to b; update t set b = 50 where id = 3");
    await rig.expectEqual();
    await rig.source("alter table t rename g to h; update t set b = 51 where id = 3");
    await untilColumns(rig, plain.replace("a -, g s", "b -, h s"));
    await rig.expectEqual();
    await rig.source(
      "alter table t add column i int generated always as (b + id) stored; update t set b = 52 where id = 4",
    );
    await untilColumns(rig, "id -, b -, h s, name -, full_name s, i s");
    await rig.expectEqual();
    // The columns that use it go first.
    await rig.source("alter table t drop column h, drop column i; alter table t alter b type bigint");
    await rig.source(
      "alter table t add column h bigint generated always as (b * 3) stored; insert into t (id, b) values (20, 20)",
    );
    await untilColumns(rig, "id -, b -, name -, full_name s, h s");
    await rig.expectEqual();
    await rig.source("alter table t drop column b cascade; insert into t (id) values (21)");
    await untilColumns(rig, "id -, name -, full_name s");
    await rig.expectEqual();
    await rig.stop();
  });

  testAlike("one that is computed no longer keeps its values, and takes those of the source", async () => {
    await using rig = await streaming(major, table);
    await rig.source("update t set a = 7 where id = 3; alter table t alter g drop expression");
    await rig.source("update t set a = 8 where id = 4; insert into t (id, a, g) values (7, 7, 70)");
    await rig.expectEqual();
    expect(await columns(rig)).toBe("id -, a -, g -, name -, full_name s");
    await rig.source(
      "alter table t drop column g; alter table t rename a to g; insert into t (id, g) values (8, 8)",
    );
    await rig.expectEqual();
    await rig.stop();
  });

  testAlike(
    "one that is computed no longer before anybody has seen it: its table is copied again",
    async () => {
      const source = "create table t (id int primary key, a int); insert into t values (1, 1), (2, 2)";
      const add = (name: string) => `alter table t add column ${name} int generated always as (a * 2) stored`;
      await using rig = await streaming(major, source);
      // In one transaction: no look falls between.
      await rig.source(`${add("g")}; alter table t alter g drop expression`);
      await rig.expectEqual();
      // With rows under each shape.
      await rig.source(
        `${add("h")}; insert into t (id, a) values (3, 3); alter table t alter h drop expression; update t set h = 7 where id = 1`,
      );
      await rig.expectEqual();
      await rig.stop();
      await rig.source(`${add("i")}; alter table t alter i drop expression`);
      rig.start();
      await rig.expectEqual();
      await waitFor("the warning to be over", () => rig.silentChanges === "");
      expect(await columns(rig)).toBe("id -, a -, g -, h -, i -");
      await rig.source("update t set i = 0 where id = 2; delete from t where id = 1");
      await rig.expectEqual();
      await rig.stop();
    },
  );

  testAlike("one that is computed no longer, and was left out: its table is copied again", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    await using rig = await streaming(
      major,
      `${twice}; create table t (id int primary key, g int generated always as (twice(id)) stored); insert into t values (1), (2)`,
    );
    await rig.source("alter table t alter g drop expression");
    await rig.expectEqual();
    await waitFor("the warning to be over", () => rig.silentChanges === "");
    expect(await columns(rig)).toBe("id -, g -");
    await rig.stop();
  });

  testAlike(
    "one that is computed no longer, where nothing is copied by itself: a warning names the task",
    async () => {
      const source = "create table t (id int primary key, a int); create publication own for table t";
      const sink = "create table t (id int primary key, a int); insert into t values (1, 1)";
      await using rig = await streaming(
        major,
        `${source}; insert into t values (1, 1)`,
        { ...own("own"), skipSnapshots: true },
        sink,
      );
      await rig.source(
        "alter table t add column g int generated always as (a * 2) stored; alter table t alter g drop expression",
      );
      await waitFor("the warning", () => /public\.t: column g .*"Snapshot"/.test(rig.silentChanges));
      await untilColumns(rig, "id -, a -, g -");
      expect(await rig.snapshot("t", false)).toBeNull();
      await rig.expectEqual();
      await waitFor("the warning to be over", () => rig.silentChanges === "");
      await rig.stop();
    },
  );

  testAlike(
    "one that is computed no longer, and that the sink is known to have: nothing is copied",
    async () => {
      await using rig = await streaming(major, table);
      await rig.stop();
      // The run finds the column at the sink.
      rig.start();
      await rig.untilRealtime();
      const copies = rig.copies.length;
      await rig.source("update t set a = 7 where id = 3");
      await rig.expectEqual();
      await rig.source("alter table t alter g drop expression");
      await untilColumns(rig, "id -, a -, g -, name -, full_name s");
      await rig.source("update t set a = 8 where id = 4; insert into t (id, a, g) values (7, 7, 70)");
      await rig.expectEqual();
      await rig.stop();
      expect(rig.warnings).toEqual([]);
      expect(rig.copies.length).toBe(copies);
      // Nothing but a copy brings the values under another name.
      rig.start();
      await rig.untilRealtime();
      await rig.source(
        "alter table t alter full_name drop expression; alter table t rename full_name to whole",
      );
      await untilColumns(rig, "id -, a -, g -, name -, whole -");
      await rig.expectEqual();
      await rig.stop();
    },
  );

  testAlike(
    "one that is computed no longer, and that the sink has under another name: its table is copied again",
    async () => {
      const source =
        "create table t (id int primary key, g int generated always as (id * 2) stored); insert into t values (1), (2)";
      const sink = `create table t (id int primary key, g int generated always as (id * 2) stored, h int);
      comment on column t.g is 'made by millrace: computed as column 2 of the source: (id * 2)'`;
      await using rig = await streaming(major, source, {}, sink);
      // The sink's own `h` is in its way.
      await rig.source("alter table t rename g to h; insert into t values (3)");
      await rig.expectSame("select id from t order by id");
      await rig.stop();
      rig.start();
      await rig.untilRealtime();
      expect(await columns(rig)).toBe("id -, g s, h -");
      await rig.source("alter table t alter h drop expression; update t set h = 7 where id = 1");
      await rig.expectSame("select id, h from t order by id");
      await rig.stop();
    },
  );

  testAlike("one whose name another column gets makes room for it", async () => {
    await using rig = await streaming(major, table);
    await rig.source(
      `alter table t drop column g; alter table t add column g int; insert into t (id, a, g) values (7, 7, 1);
       alter table t drop column g; alter table t rename a to g; insert into t (id, g) values (8, 8)`,
    );
    await rig.expectEqual();
    expect(await columns(rig)).toBe("id -, g -, name -, full_name s");
    await rig.stop();
  });

  testAlike("one whose name another column gets keeps nothing of that one from the sink", async () => {
    await using rig = await streaming(major, table);
    await rig.source("alter table t drop column g; alter table t add column g int");
    await rig.source("insert into t (id, a, g) values (7, 7, 1)");
    await untilColumns(rig, "id -, a -, name -, full_name s, g -");
    await rig.source("insert into t (id, a, g) values (8, 8, 2)");
    await rig.expectEqual();
    await rig.source("alter table t drop column full_name");
    await untilColumns(rig, "id -, a -, name -, g -");
    await rig.source("alter table t add column full_name text");
    await rig.source("insert into t (id, full_name) values (9, 'nine')");
    await rig.expectEqual();
    await rig.stop();
  });

  test("tables that are there already: with the column computed, plain, or without it", async () => {
    const plainTable = "(id int primary key, a int";
    await using rig = await streaming(
      major,
      ["t", "u", "v"]
        .map(
          (name) =>
            `create table ${name} ${plainTable}, g int generated always as (a * 2) stored); insert into ${name} values (1, 1)`,
        )
        .join(";"),
      {},
      `create table t ${plainTable}, g int generated always as (a + a) stored); create table u ${plainTable}); create table v ${plainTable}, g int)`,
    );
    await untilColumns(rig, "id -, a -, g s", "u");
    await rig.source("insert into t values (2, 2); insert into u values (2, 2); update v set a = 3");
    for (const name of ["t", "u"]) await rig.expectSame(`select * from ${name} order by id`);
    await rig.expectSame("select id, a from v");
    expect(await columns(rig)).toBe("id -, a -, g s");
    expect(await columns(rig, "v")).toBe("id -, a -, g -");
    if (major >= 18) await rig.expectEqual();
    else
      await waitFor("the warning", () =>
        rig.warnings.some((warning) => /public\.v\.g \(.*ordinary column/.test(warning)),
      );
    await rig.stop();
  });

  test("a function that the sink lacks: the column is sent where it can be, and left out otherwise", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    await using rig = await streaming(
      major,
      `${twice}; create table t (id int primary key, a int, g int generated always as (twice(a)) stored); insert into t values (1, 1)`,
    );
    await rig.source("insert into t values (2, 2); update t set a = 9 where id = 1");
    if (major >= 18) {
      await rig.expectEqual();
      expect(await columns(rig)).toBe("id -, a -, g -");
      // Added while rows stream: the ones that were there before have values too.
      await rig.source(
        "alter table t add column h int generated always as (twice(a) + 1) stored; insert into t values (3, 3)",
      );
      await rig.expectEqual();
      await rig.source("alter table t rename g to g2; update t set a = 11");
      await rig.expectEqual();
      await rig.source("delete from t where id = 2");
      await rig.expectEqual();
      expect(await rig.snapshot("t", true)).toBeNull();
      await rig.expectEqual();
    } else {
      await rig.expectSame("select id, a from t order by id");
      expect(await columns(rig)).toBe("id -, a -");
      expect(rig.warnings.join()).toMatch(/public\.t\.g \(.*version 18 on; .*twice\(integer\) is missing/);
    }
    await rig.stop();
  });

  testAlike("another function of the same name is not trusted; an equal one is", async () => {
    const half = (body: string) =>
      `create function half(n int) returns int immutable language sql as 'select ${body}'`;
    await using rig = await streaming(
      major,
      `${half("n / 2")}; ${half("n / 2").replace("half", "same")};
       create table t (id int primary key, g int generated always as (half(id)) stored, s int generated always as (same(id)) stored)`,
      {},
      `${half("n / 3")}; ${half("n / 2").replace("half", "same")}`,
    );
    await rig.source("insert into t values (6)");
    if (major >= 18) await rig.expectEqual();
    await rig.expectSame("select id, s from t");
    expect(await columns(rig)).toBe(major >= 18 ? "id -, g -, s s" : "id -, s s");
    await rig.stop();
  });

  test("a function that the source replaced meanwhile is not trusted from the next run on", async () => {
    const half = (body: string) =>
      `create or replace function half(n int) returns int immutable language sql as 'select ${body}'`;
    await using rig = await streaming(
      major,
      `${half("n / 2")}; create table t (id int primary key, a int, g int generated always as (half(a)) stored); insert into t values (1, 6), (2, 12)`,
      {},
      half("n / 2"),
    );
    expect(await columns(rig)).toBe("id -, a -, g s");
    await rig.source(`${half("n / 3")}; update t set a = a where id = 1`);
    await rig.stop();
    rig.start();
    await rig.source("update t set a = 18 where id = 2; insert into t values (3, 24)");
    await rig.expectSame("select id, a from t order by id");
    if (major >= 18) {
      await rig.expectEqual();
      expect(await columns(rig)).toBe("id -, a -, g -");
    } else {
      expect(await columns(rig)).toBe("id -, a -");
      expect(rig.warnings.join()).toMatch(/public\.t\.g \(.*half\(integer\) is missing or another one there/);
    }
    await rig.stop();
  });

  testAlike("what is computed from a hashed or an excluded column is left out", async () => {
    const source = {
      catalog: catalog([
        { name: "secret", action: "Include", hash: {} },
        { name: "left", action: "Exclude" },
      ]),
    };
    await using rig = await streaming(
      major,
      `create table t (id int primary key, secret text, "left" int, a int, s text generated always as (lower(secret)) stored,
         l int generated always as ("left" + 1) stored, g int generated always as (a + 1) stored);
       insert into t values (1, 'X', 1, 1)`,
      { source },
    );
    await rig.source("insert into t values (2, 'Y', 2, 2); update t set secret = 'Z', a = 5 where id = 1");
    await rig.expectSame("select id, a, g from t order by id");
    expect(await columns(rig)).toBe("id -, secret -, a -, g s");
    expect(rig.warnings.join()).toContain(
      "public.t.s (it is computed from a column that is hashed or excluded)",
    );
    expect(rig.warnings.join()).toContain(
      "public.t.l (it is computed from a column that is hashed or excluded)",
    );
    await rig.stop();
  });

  testAlike("where nothing may be added, the column is sent or left out", async () => {
    const sink = { migration_strategy: { allowed: ["Drop" as const], disable_all: false } };
    await using rig = await streaming(
      major,
      table,
      { sink },
      "create table t (id int primary key, a int, name text, g int, full_name text)",
    );
    await rig.source(changes);
    if (major >= 18) await rig.expectEqual();
    else await rig.expectSame("select id, a, name from t order by id");
    await rig.stop();
  });

  testAlike("copies without a stream bring those that the sink does not compute", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    await using rig = await create(major, { work: "copies" });
    await rig.source(`${twice}; create table t (id int primary key, g int generated always as (twice(id)) stored, h int generated always as (id + 1) stored);
      insert into t values (1), (2)`);
    rig.start();
    expect(await rig.ended()).toBeNull();
    expect(await columns(rig)).toBe("id -, g -, h s");
    // The next round of a schedule.
    rig.initialized = false;
    await rig.source("insert into t values (3)");
    rig.start();
    expect(await rig.ended()).toBeNull();
    await rig.expectEqual();
  });

  testAlike("partitions, as leaves and as their root, and large tables in ranges", async () => {
    const partitioned = `create table t (id int primary key, a int, g int generated always as (a * 2) stored) partition by range (id);
      create table t1 partition of t for values from (0) to (1000); create table t2 partition of t for values from (1000) to (100000);
      insert into t select i, i from generate_series(1, 3000) i`;
    for (const partitions_as_root of [false, true]) {
      await using rig = await streaming(major, partitioned, {
        source: { partitions_as_root },
        copyPace: { dividedFromBytes: 1, rangeBytes: 16_384, firstRangeBytes: 16_384 },
      });
      await rig.source("update t set a = 0 where id % 10 = 0; delete from t where id % 7 = 0");
      await rig.expectEqual();
      expect(await columns(rig, partitions_as_root ? "t" : "t1")).toBe("id -, a -, g s");
      await rig.stop();
    }
  });
});

describe("of PostgreSQL 18, which publishes them", () => {
  test("virtual ones are computed at a sink of 18, and left out at an older one", async () => {
    const sql = `create table t (id int primary key, a int, v int generated always as (10 / a) virtual);
      insert into t values (1, 1), (2, 0)`;
    const rows = "insert into t values (3, 5); update t set a = 2 where id = 1";
    await using newest = await streaming(18, sql);
    await newest.source(rows);
    await newest.expectSame("select id, a from t order by id");
    await newest.expectSame("select id, v from t where a <> 0 order by id");
    expect(await columns(newest)).toBe("id -, a -, v v");
    await newest.stop();
    expect(newest.warnings).toEqual([]);
    await using older = await streaming(18, sql, { sinkServer: server(17) });
    await older.source(rows);
    await older.expectSame("select id, a from t order by id");
    expect(await columns(older)).toBe("id -, a -");
    expect(older.warnings.join()).toMatch(
      /public\.t\.v \(it is virtual, .*its version 17 is older than the source's 18/,
    );
    await older.stop();
  });

  test("an older sink computes none, whether it knows the expression or not: they are sent", async () => {
    await using down = await streaming(
      18,
      "create table t (id int primary key, a bytea, h text generated always as (reverse(a)::text) stored, g int generated always as (id + 1) stored); insert into t values (1, 'abc')",
      { sinkServer: server(17) },
    );
    await down.source("insert into t values (2, 'xyz'); update t set a = 'cba' where id = 1");
    await down.expectEqual();
    expect(await columns(down)).toBe("id -, a -, h -, g -");
    await down.stop();
    expect(down.warnings).toEqual([]);
    await using up = await streaming(14, table, { sinkServer: server(18) });
    await up.source(changes);
    await up.expectEqual();
    expect(await columns(up)).toBe("id -, a -, g s, name -, full_name s");
    await up.stop();
  });

  test("a key that has one: rows are updated and deleted by it", async () => {
    const key = "b int, g int generated always as (b * 2) stored, primary key (a, g)";
    await using rig = await streaming(
      18,
      `create table t (a int, ${key}); insert into t values (1, 1), (1, 2), (1, 4);
       create table f (a int, ${key}); alter table f replica identity full; insert into f values (1, 1), (1, 2)`,
    );
    await rig.source(
      "insert into t values (1, 3); update t set b = 7 where b = 1; delete from t where b = 2; update t set a = 5 where b = 4",
    );
    await rig.source(
      "insert into f values (1, 3); update f set b = 7 where b = 1; delete from f where b = 2",
    );
    await rig.expectEqual();
    expect(await columns(rig)).toBe("a -, b -, g -");
    expect(await rig.snapshot("t", true)).toBeNull();
    await rig.expectEqual();
    await rig.stop();
    expect(rig.warnings).toEqual([]);
  });

  test("a publication of the user's: what it publishes is sent where the sink computes nothing", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    const sql = `${twice}; create table t (id int primary key, a int, g int generated always as (twice(a)) stored, h int generated always as (a + 1) stored);
      insert into t values (1, 1); create publication own for table t`;
    await using rig = await streaming(18, sql, own("own"));
    const left = () =>
      /public\.t\.g \(publication own does not publish it.*publish_generated_columns = stored/.test(
        rig.warnings.join(),
      );
    expect(left()).toBe(true);
    expect(await columns(rig)).toBe("id -, a -, h s");
    await rig.source("insert into t values (2, 2)");
    // What was copied before lacks its values: the table is copied again.
    await rig.source("alter publication own set (publish_generated_columns = stored)");
    await rig.source("update t set a = 5 where id = 1");
    await rig.expectEqual();
    expect(await columns(rig)).toMatch(/^id -, a -, h s, g -$/);
    await rig.source("insert into t values (3, 3); delete from t where id = 2");
    await rig.expectEqual();
    await rig.stop();
  });

  test("a publication of the user's that begins to publish them: the run hears of it, though a task meets it first", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    const sql = `${twice}; create table t (id int primary key, g int generated always as (twice(id)) stored);
      insert into t values (1); create publication own for table t`;
    await using rig = await streaming(18, sql, { ...own("own"), pace: { tableCheckMs: 600_000 } });
    await rig.source("alter publication own set (publish_generated_columns = stored)");
    await rig.source("insert into t values (2)");
    // The stream has met the table, and leaves the column out.
    await rig.expectSame("select id from t order by id");
    expect(await rig.snapshot("t", false)).toMatchObject({ code: "table_changed" });
    await untilColumns(rig, "id -, g -");
    await rig.expectEqual();
    await rig.source("insert into t values (3)");
    await rig.expectEqual();
    await rig.stop();
  });

  test("a publication of the user's that lists columns, and a connector that excludes one", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    const sql = `${twice}; create table t (id int primary key, a int, x int, g int generated always as (twice(a)) stored); insert into t values (1, 1, 1)`;
    const excluding = { catalog: catalog([{ name: "x", action: "Exclude" as const }]) };
    await using listed = await streaming(18, `${sql}; create publication own for table t (id, a, g)`, {
      source: { ...own("own").source, ...excluding },
    });
    await using made = await streaming(18, sql, { source: excluding });
    for (const rig of [listed, made]) {
      await rig.source("insert into t values (2, 2, 2); update t set a = 7 where id = 1");
      await rig.expectEqual();
      expect(await columns(rig)).toBe("id -, a -, g -");
      await rig.stop();
      expect(rig.warnings).toEqual([]);
    }
  });

  test("a connector that copies nothing begins with what is published", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    const sql = `${twice}; create table t (id int primary key, g int generated always as (twice(id)) stored, h int generated always as (id + 1) stored);
      insert into t values (1); create publication own for table t with (publish_generated_columns = stored)`;
    await using rig = await streaming(18, sql, { ...own("own"), skipSnapshots: true });
    await rig.source("insert into t values (2), (3); delete from t where id = 3");
    await rig.expectSame("select * from t where id > 1 order by id");
    await rig.stop();
    rig.start();
    await rig.source("insert into t values (4)");
    await rig.expectSame("select * from t where id > 1 order by id");
    expect(await columns(rig)).toBe("id -, g -, h s");
    await rig.stop();
    expect(rig.copies).toEqual([]);
  });

  test("a hashed one is sent as its hash", async () => {
    const source = { catalog: catalog([{ name: "g", action: "Include" as const, hash: {} }]) };
    await using rig = await streaming(18, table, { source });
    await rig.source(changes);
    await rig.expectEqual();
    await rig.stop();
  });

  const hiding = catalog([
    { name: "secret", action: "Include" as const, hash: {} },
    { name: "left", action: "Exclude" as const },
  ]);
  const hidden = `create table t (id int primary key, secret text, s text generated always as (lower(secret)) stored);
    insert into t values (1, 'A'); create publication own for table t with (publish_generated_columns = stored)`;

  test("what is computed from a hashed column is left out under any name that it gets while rows stream", async () => {
    const source = { ...own("own").source, catalog: hiding };
    // The stream brings it first.
    await using rig = await streaming(18, hidden, { source, pace: { tableCheckMs: 600_000 } });
    await rig.source("alter table t add e text generated always as (lower(secret)) stored");
    await rig.source("insert into t values (2, 'B')");
    await rig.expectSame("select id from t order by id");
    await rig.source("alter table t rename s to r");
    await rig.source("insert into t values (3, 'C')");
    await rig.expectSame("select id from t order by id");
    expect(await columns(rig)).toBe("id -, secret -");
    await rig.stop();
    // The stream is behind what the catalog shows.
    await rig.source(
      "insert into t values (4, 'D'); alter table t rename e to f; alter table t rename r to q",
    );
    await rig.source("alter table t add g text generated always as (lower(secret)) stored");
    await rig.source("insert into t values (5, 'E'); alter table t rename g to h");
    await rig.source("insert into t values (6, 'F')");
    rig.start();
    await rig.expectSame("select id from t order by id");
    expect(await columns(rig)).toBe("id -, secret -");
    await rig.stop();
  });

  test("what is computed from an excluded column is left out, too, where all columns are published", async () => {
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    // Of the other table the column is sent.
    const sql = `${twice}; create table u (id int primary key, g int generated always as (twice(id)) stored);
      create table t (id int primary key, "left" text); alter table t replica identity full; insert into t values (1, 'one')`;
    await using rig = await streaming(18, sql, {
      source: { catalog: hiding },
      pace: { tableCheckMs: 600_000 },
    });
    await rig.source('alter table t add l int generated always as (length("left")) stored');
    await rig.source("insert into t values (2, 'two'); insert into u values (1)");
    await rig.expectSame("select id from t order by id");
    await rig.expectSame("select * from u");
    expect(await columns(rig)).toBe("id -");
    await rig.stop();
  });

  test("another expression: computed anew at the sink; where the column is sent, a warning names the task", async () => {
    await using rig = await streaming(18, table);
    await rig.source("alter table t alter g set expression as (a * 5); update t set a = a + 1 where id = 2");
    await rig.expectEqual();
    expect(await columns(rig)).toBe("id -, a -, name -, full_name s, g s");
    await rig.stop();
    const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
    await using sent = await streaming(
      18,
      `${twice}; create table t (id int primary key, g int generated always as (twice(id)) stored); insert into t values (1)`,
    );
    await sent.source("alter table t alter g set expression as (twice(id) + 1); insert into t values (2)");
    await waitFor("the warning", () => /public\.t: column g was rewritten/.test(sent.silentChanges));
    expect(await sent.snapshot("t", true)).toBeNull();
    await sent.expectEqual();
    await sent.stop();
  });

  test("the same expression again, of other columns that have got the names: computed anew at the sink", async () => {
    await using rig = await streaming(
      18,
      `create table t (id int primary key, price int, price_new int, amount int,
         total int generated always as (price * amount) stored, rest int generated always as (price - amount) stored);
       insert into t values (1, 10, 1000, 2), (2, 20, 2000, 3)`,
    );
    await rig.source(
      `alter table t rename price to price_old; alter table t rename price_new to price;
       alter table t alter total set expression as (price * amount); insert into t values (3, 30, 3000, 4)`,
    );
    await rig.expectEqual();
    // The columns exchange their names.
    await rig.source(
      `alter table t rename price_old to other; alter table t rename amount to price_old; alter table t rename other to amount;
       alter table t alter rest set expression as (price - amount); update t set price = price + 1 where id = 1`,
    );
    await rig.expectEqual();
    await rig.source("alter table t rename price to other; alter table t rename amount to price");
    await rig.source(
      "alter table t rename other to amount; alter table t alter rest set expression as (price - amount)",
    );
    await rig.source("update t set price = price + 1 where id = 1");
    await rig.expectEqual();
    expect((await columns(rig)).match(/ s/g)).toHaveLength(2);
    await rig.stop();
  });

  test("added while rows stream, in the transaction that writes to it", async () => {
    await using rig = await streaming(
      18,
      "create table t (id int primary key, a int); insert into t values (1, 1)",
    );
    await rig.source(
      "begin; insert into t values (2, 2); alter table t add column g int generated always as (a * 2) stored; insert into t values (3, 3); update t set a = 9 where id = 1; commit",
    );
    await rig.expectEqual();
    await untilColumns(rig, "id -, a -, g s");
    await rig.stop();
  });
});

describe("at a sink that is older than the source", () => {
  // Before version 17 the difference of an infinite time and another one is an error.
  const late = `create table t (id int primary key, at timestamp,
    g boolean generated always as (at - timestamp '2000-01-01' > interval '1 day') stored);
    insert into t values (1, 'infinity'), (2, '1999-01-01')`;
  const rows =
    "insert into t values (3, '-infinity'); update t set at = 'infinity' where id = 2; update t set at = now() where id = 1";
  const ofOurs = `create table t (id int primary key, at timestamp, g boolean generated always as (at is not null) stored);
    comment on column t.g is 'made by millrace: computed as column 3 of the source: (at is not null)'`;
  const known = `create table t (id int primary key, at timestamp, g boolean generated always as (at is not null) stored);
    insert into t values (1, 'infinity'), (2, null)`;

  test("what PostgreSQL 18 publishes is sent", async () => {
    await using rig = await streaming(18, late, { sinkServer: server(14) });
    await rig.source(rows);
    await rig.expectEqual();
    expect(await columns(rig)).toBe("id -, at -, g -");
    expect(await rig.snapshot("t", true)).toBeNull();
    await rig.expectEqual();
    await rig.stop();
    expect(rig.warnings).toEqual([]);
  });

  test("what an older one does not publish is left out, and a warning says why", async () => {
    await using rig = await streaming(17, late, { sinkServer: server(14) });
    await rig.source(rows);
    await rig.expectSame("select id, at from t order by id");
    expect(await columns(rig)).toBe("id -, at -");
    expect(rig.warnings.join()).toMatch(
      /public\.t\.g \(.*version 18 on; .*its version 14 is older than the source's 17\)/,
    );
    await rig.stop();
  });

  test("one that it has computed so far it computes further", async () => {
    for (const major of [17, 18]) {
      await using rig = await streaming(major, known, { sinkServer: server(14) }, ofOurs);
      await rig.source("insert into t values (3, 'infinity'); update t set at = null where id = 1");
      await rig.expectEqual();
      expect(await columns(rig)).toBe("id -, at -, g s");
      await rig.stop();
      expect(rig.warnings).toEqual([]);
    }
  });

  test("one that somebody has made there stays", async () => {
    const [own] = ofOurs.split(";");
    await using rig = await streaming(18, known, { sinkServer: server(14) }, own);
    await rig.source("insert into t values (3, 'infinity'); update t set at = null where id = 1");
    await rig.expectEqual();
    expect(await columns(rig)).toBe("id -, at -, g s");
    await rig.stop();
  });
});

describe("one that the sink can compute no longer, or not yet", () => {
  const twice = "create function twice(n int) returns int immutable language sql as 'select n * 2'";
  const start = `${twice}; create table t (id int primary key, a int, g int generated always as (a * 2) stored); insert into t values (1, 1), (2, 2)`;

  test("is sent from then on, and its table copied again", async () => {
    await using rig = await streaming(18, start);
    expect(await columns(rig)).toBe("id -, a -, g s");
    await rig.source(
      "alter table t alter g set expression as (twice(a) + 1); update t set a = 5 where id = 1",
    );
    await rig.expectEqual();
    expect(await columns(rig)).toBe("id -, a -, g -");
    await rig.source("insert into t values (3, 3); update t set a = 6 where id = 2");
    await rig.expectEqual();
    await rig.stop();
    rig.start();
    await rig.source("insert into t values (4, 4)");
    await rig.expectEqual();
    await rig.stop();
  });

  test("is left out before PostgreSQL 18: the sink drops what it computed otherwise", async () => {
    await using rig = await streaming(17, start);
    await rig.source(
      "alter table t alter g set expression as (twice(a) + 1); update t set a = 5 where id = 1",
    );
    await untilColumns(rig, "id -, a -");
    await rig.expectSame("select id, a from t order by id");
    expect(rig.warnings.join()).toContain("twice(integer) is missing");
    // Once the sink has the function, the next look at the tables finds it.
    await rig.sink(twice);
    await rig.source("create table other (id int primary key)");
    await untilColumns(rig, "id -, a -, g s");
    await rig.expectEqual();
    await rig.stop();
  });

  test("is added while rows stream", async () => {
    await using rig = await streaming(
      18,
      `${twice}; create table t (id int primary key, a int); create table u (id int primary key, g int generated always as (id + 1) stored);
      insert into t values (1, 1); insert into u values (1)`,
    );
    await rig.source(
      "begin; insert into t values (2, 2); alter table t add column g int generated always as (twice(a)) stored; insert into t values (3, 3); update t set a = 9 where id = 1; commit; insert into u values (2)",
    );
    await rig.expectEqual();
    await rig.source("update t set a = a + 1; insert into u values (3)");
    await rig.expectEqual();
    expect(await columns(rig, "u")).toBe("id -, g s");
    await rig.stop();
  });
});

describe("at sinks that are not as the source", () => {
  test("in another schema, and where names are made anew", async () => {
    await using moved = await streaming(17, table, { sink: { target_schema: "elsewhere" } });
    await moved.source(changes);
    const rows = "select id, a, g, name, full_name from";
    await waitFor("the rows", async () => {
      const atSink = await moved.sink(`${rows} elsewhere.t order by id`);
      return Bun.deepEquals(atSink, await moved.source(`${rows} t order by id`));
    });
    expect(await columns(moved, "elsewhere.t")).toBe("id -, a -, g s, name -, full_name s");
    await moved.stop();
    const naming = {
      FivetranNaming: {
        schema_prefix: null,
        column_conflict: "Fail" as const,
        table_conflict: "Fail" as const,
      },
    };
    await using named = await streaming(17, table, { naming });
    await named.source(changes);
    await named.expectSame("select id, a, name from t order by id");
    expect(await columns(named)).toBe("id -, a -, name -");
    expect(named.warnings.join()).toContain("identifier_naming renames columns");
    await named.stop();
  });

  test("a view upon one: what the sink cannot follow is told, and the rest goes on", async () => {
    await using rig = await streaming(17, table);
    await rig.sink("create view upon as select g from t");
    await rig.source("alter table t drop column g");
    await rig.source("alter table t add column g int generated always as (a * 5) stored");
    await waitFor("the warning", () =>
      rig.warnings.some((warning) => /generated columns of public\.t cannot be made/.test(warning)),
    );
    await rig.source("update t set a = 20 where id = 1");
    await rig.expectSame("select id, a from t order by id");
    await rig.sink("drop view upon");
    await rig.source("alter table t add column more int");
    await rig.expectSame("select id, a, g, more from t order by id");
    await rig.stop();
  });

  test("text under another locale is not trusted to compare alike", async () => {
    await using other = await PostgresServer.start({ major: 17, settings: { fsync: "off" } });
    const rig = await PipelineRig.create(server(17), `gen_${++count}`, {
      isSupervised: true,
      sinkServer: other,
    });
    await using _rig = rig;
    await other.query(`drop database "${rig.sinkDatabase}"`);
    await other.query(
      `create database "${rig.sinkDatabase}" template template0 encoding utf8 locale_provider icu icu_locale 'tr' locale 'C'`,
    );
    await rig.source(table);
    await rig.source("alter table t add j jsonb, add low text generated always as (lower(j->>'x')) stored");
    rig.start();
    await rig.untilRealtime();
    await rig.source(changes);
    await rig.expectSame("select id, a, g, name, j from t order by id");
    expect(await columns(rig)).toBe("id -, a -, g s, name -, j -");
    expect(rig.warnings.join()).toMatch(/full_name \(.*another locale or encoding/);
    expect(rig.warnings.join()).toMatch(/low \(.*the database has another locale or encoding there/);
    await rig.stop();
  });

  matrixTest("transactions in progress, and deaths at any call", async () => {
    await using rig = await streaming(17, table);
    await rig.sendInProgress();
    await rig.source(changes);
    await rig.expectEqual();
    await rig.source(
      "begin; insert into t (id, a) select i, i from generate_series(100, 400) i; update t set a = a + 1; commit",
    );
    await rig.expectEqual();
    await rig.stop();
    for (let calls = 1; calls < 12; calls++) {
      rig.start();
      rig.dieAt(calls);
      await rig.source(`alter table t drop column g; alter table t add column g int generated always as (a * ${calls}) stored;
        insert into t (id, a) values (${1000 + calls}, ${calls}); update t set a = ${calls} where id = 3`);
      await Promise.race([
        rig.ended(),
        waitFor("nothing to do", async () => rig.isDead, { timeoutMs: 3_000 }).catch(() => {}),
      ]);
      await rig.crash();
      rig.start();
      await rig.expectEqual();
      await rig.stop();
    }
  });

  test("deaths at any call while columns are added that the sink cannot compute", async () => {
    await using rig = await streaming(
      18,
      "create function twice(n int) returns int immutable language sql as 'select n * 2'; create table t (id int primary key, a int); insert into t values (1, 1)",
    );
    await rig.stop();
    for (const calls of variants([1, 4, 8, 11], [2, 3, 5, 6, 7, 9, 10])) {
      rig.start();
      rig.dieAt(calls);
      await rig.source(`begin; update t set a = ${calls}; alter table t add column g${calls} int generated always as (twice(a) + ${calls}) stored;
        insert into t (id, a) values (${1000 + calls}, ${calls}); commit; update t set a = a + 1 where id % 2 = 0`);
      await Promise.race([
        rig.ended(),
        waitFor("the death", async () => rig.isDead, { timeoutMs: 3_000 }).catch(() => {}),
      ]);
      await rig.crash();
      rig.start();
      await rig.expectEqual();
      await rig.stop();
    }
  });
});
