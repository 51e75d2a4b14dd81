// Tables that are altered while their changes travel: the row goes with the shape it was written in, the sink's table follows,
// and what no event tells is warned of until a snapshot task has mended it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { logicalReplication } from "../../support/api/connector-config.ts";
import { pick, variants } from "../../support/matrix.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

async function streaming(sql: string, options: RigOptions = {}): Promise<PipelineRig> {
  const supervised = { isSupervised: true, ...options };
  const pair = await PipelineRig.streaming(server, `shape_${++count}`, { source: sql }, supervised);
  await pair.expectEqual();
  return pair;
}

const warnings = (pair: PipelineRig) =>
  pair.phases.flatMap(({ health }) => (health.kind === "warning" ? [health.reason] : []));

/** The columns of the sink's table, by name and type. */
async function columnsAtSink(pair: PipelineRig, table = "t"): Promise<string[]> {
  const rows = await pair.sink<{ column: string }>(
    `select attname || ' ' || format_type(atttypid, atttypmod) as column from pg_attribute
     where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped order by attname collate "C"`,
  );
  return rows.map(({ column }) => column);
}

const begin =
  "create table t (id int primary key, a int, b text); insert into t values (1, 1, 'x'), (2, 2, 'y')";

/** What is done to `t`, and what the sink's columns are then. */
type Alteration = readonly [sql: string, columns: readonly string[]];
const everydayAlterations: readonly Alteration[] = [
  ["alter table t add column z int default 7", ["a integer", "b text", "id integer", "z integer"]],
  [
    "alter table t add column z text default E'it''s \\\\ {\"x\"}, \\n(1,2)'",
    ["a integer", "b text", "id integer", "z text"],
  ],
  [
    "alter table t add column z timestamptz not null default now()",
    ["a integer", "b text", "id integer", "z timestamp with time zone"],
  ],
  ["alter table t rename column id to key", ["a integer", "b text", "key integer"]],
  [
    "alter table t rename a to x; alter table t rename b to a; alter table t rename x to b",
    ["a text", "b integer", "id integer"],
  ],
  ["alter table t drop column a; alter table t add column a int", ["a integer", "b text", "id integer"]],
  ["alter table t drop column a; alter table t rename b to a", ["a text", "id integer"]],
  ["alter table t alter a type text", ["a text", "b text", "id integer"]],
  [
    "alter table t alter b type varchar(5); alter table t alter b type varchar(9)",
    ["a integer", "b character varying(9)", "id integer"],
  ],
  [
    "alter table t rename a to n; alter table t alter n type numeric(12,2)",
    ["b text", "id integer", "n numeric(12,2)"],
  ],
];
const otherAlterations: readonly Alteration[] = [
  ["alter table t add column z int", ["a integer", "b text", "id integer", "z integer"]],
  ["alter table t add column z box default '(1,1),(0,0)'", ["a integer", "b text", "id integer", "z box"]],
  [
    "alter table t add column z int[] default '{{1,NULL},{3,4}}'",
    ["a integer", "b text", "id integer", "z integer[]"],
  ],
  ["alter table t drop column a", ["b text", "id integer"]],
  ["alter table t rename column a to c", ["b text", "c integer", "id integer"]],
  ["alter table t alter a type bigint", ["a bigint", "b text", "id integer"]],
];
const alterations = variants(everydayAlterations, otherAlterations);

/** One half of those of every day is made while it streams and the other one while it is stopped. */
describe.each(["while it streams", "while it is stopped"])("%s", (when) => {
  const half = when === "while it streams" ? 0 : 1;
  test.each(pick(alterations, (_, i) => i % 2 === half))("%s", async (sql, columns) => {
    await using pair = await streaming(begin);
    const stopped = when === "while it is stopped";
    if (stopped) await pair.stop();
    await pair.source("insert into t values (3, 3, 'z'); update t set b = 'u' where id = 1");
    await pair.source(sql);
    if (stopped) pair.start();
    // No row of the table changes any more: it follows all the same.
    await pair.expectEqual();
    await waitFor("the sink's columns", async () => (await columnsAtSink(pair)).join() === columns.join());
    await pair.source(
      "insert into t select * from t where false; delete from t where ctid = (select max(ctid) from t)",
    );
    await pair.expectEqual();
    await pair.stop();
  });
});

test.each([["binary"], ["text"]] as const)("rows of many shapes in one batch, in %s form", async (form) => {
  await using pair = await streaming(begin, { forms: form === "text" ? ["text"] : ["binary", "text"] });
  await pair.stop();
  await pair.source(`
    insert into t values (3, 3, 'three');
    alter table t add column c int default 5;
    insert into t values (4, 4, 'four', 4);
    update t set a = 40 where id = 3;
    begin; alter table t rename a to n; insert into t values (5, 5, 'five', null); alter table t drop column b;
    insert into t values (6, 6, 6); commit;
    alter table t alter n type bigint;
    alter table t add column a text default 'new';
    update t set a = 'old', n = n + 1 where id < 4;
    insert into t values (7, 7000000000, 7, 'seven');
    alter table t rename to moved; insert into moved values (8, 8, 8, 'eight'); alter table moved rename to t;
    delete from t where id = 2`);
  pair.start();
  await pair.expectEqual();
  expect(await columnsAtSink(pair)).toEqual(["a text", "c integer", "id integer", "n bigint"]);
  await pair.stop();
});

describe("what no event tells", () => {
  const silent: readonly (readonly [sql: string, reason: string])[] = [
    [
      "alter table t add column z float8 default random()",
      "column z was added with a value of its own in each row",
    ],
    [
      "alter table t add column z int generated by default as identity",
      "column z was added with a value of its own",
    ],
    ["alter table t alter a type bigint using a * 10", "column a was rewritten"],
    ["alter table t alter a type int using a * 10", "column a was rewritten"],
  ];
  test.each(pick(silent, (_, i) => i % 2 === 0))(
    "%s is warned of, until the task mends it",
    async (sql, reason) => {
      await using pair = await streaming(begin);
      await pair.source(sql);
      await waitFor("the warning", () => warnings(pair).some((text) => text.includes(reason)));
      const warning = warnings(pair).find((text) => text.includes(reason));
      expect(warning).toContain("Table public.t");
      expect(warning).toContain('{"Snapshot":{"schema":"public","name":"t"}}');
      await pair.stop();
      pair.phases.length = 0;
      pair.start();
      await pair.untilRealtime();
      await waitFor("the warning stands after a restart", () => warnings(pair).includes(warning ?? ""));
      expect(await pair.snapshot("t", false)).toBeNull();
      await pair.expectEqual();
      await waitFor("the warning is over", () => pair.phases.at(-1)?.health.kind === "heartbeat");
      await pair.stop();
    },
  );

  test("it is warned of until a copy is durable, also beside other warnings", async () => {
    await using pair = await streaming(begin);
    await pair.source("alter table t alter a type int using a * 10");
    await waitFor("the warning", () => warnings(pair).length > 0);
    await pair.source("alter table t rename to u; insert into u values (3, 30, 'z')");
    await waitFor("the table's new name", () => pair.silentChanges.includes("Table public.u: column a"));
    await pair.source("alter table u rename to t; insert into t values (4, 40, 'zz')");
    await waitFor("its old name", () => pair.silentChanges.includes("Table public.t: column a"));
    await waitFor(
      "it at the sink",
      async () => (await pair.sink("select from pg_class where oid = to_regclass('t')"))[0],
    );
    // The sink gets the name before the rows of that transaction, and the constraint would refuse them.
    await waitFor("the row", async () => (await pair.sink("select from t where id = 4"))[0]);
    await pair.sink("alter table t add constraint narrow check (a is null) not valid");
    expect(await pair.snapshot("t", false)).not.toBeNull();
    await waitFor("the end of the task", () => pair.phases.at(-1)?.health.kind === "warning");
    await pair.sink("alter table t drop constraint narrow");
    await using blocker = await server.connect(pair.sourceDatabase);
    await blocker.query("begin; insert into t values (77, 7)");
    const copy = pair.snapshot("t", false);
    const both = await waitFor("both warnings", () =>
      warnings(pair).find((text) => text.includes("column a was rewritten") && text.includes("waits for")),
    );
    expect(both).toContain("Table public.t");
    await blocker.query("commit");
    expect(await copy).toBeNull();
    await pair.expectEqual();
    await waitFor("the warnings are over", () => pair.phases.at(-1)?.health.kind === "heartbeat");
    await pair.stop();
  });

  const others = pick(silent, (_, i) => i % 2 === 1);
  test.each(others)("%s is noticed when it was done while the connector was stopped", async (sql, reason) => {
    await using pair = await streaming(begin);
    await pair.stop();
    await pair.source(sql);
    pair.start();
    await waitFor("the warning", () => warnings(pair).some((text) => text.includes(reason)));
    await pair.stop();
  });

  test.each([
    ["vacuum full t; truncate t", 3],
    [
      "alter table t alter b type varchar, alter a set default 5, add column z int default 1, add column y text",
      5,
    ],
  ])("%s is no reason for a warning", async (sql, columns) => {
    await using pair = await streaming(begin);
    for (const statement of sql.split(";")) await pair.source(statement);
    await pair.source("insert into t values (9)");
    await pair.expectEqual();
    await waitFor("the sink's columns", async () => (await columnsAtSink(pair)).length === columns);
    expect(warnings(pair)).toEqual([]);
    await pair.stop();
  });
});

describe("a migration_strategy that does not allow it", () => {
  test("leaves a column that the source has dropped", async () => {
    const sink = { migration_strategy: { allowed: ["Nullability" as const], disable_all: false } };
    await using pair = await streaming("create table t (id int primary key, a int not null)", { sink });
    await pair.source("alter table t drop column a; insert into t values (1)");
    await pair.expectEqual();
    expect(await columnsAtSink(pair)).toEqual(["a integer", "id integer"]);
    await pair.stop();
  });
});

test("a snapshot task of a table that is altered behind the stream", async () => {
  await using pair = await streaming(begin);
  await pair.stop();
  await pair.source(
    "insert into t select g, g, 'row' from generate_series(10, 5000) g; update t set b = 'first'",
  );
  await pair.source(
    "alter table t rename a to c; alter table t add column d int default 9; update t set c = c + 1",
  );
  pair.start();
  expect(await pair.snapshot("t", false)).toBeNull();
  await pair.source("alter table t drop column b; insert into t values (9000, 1, 1)");
  await pair.expectEqual();
  await pair.stop();
});

test.each(["drop column a", "rename column a to mine"])(
  "a table whose column somebody has lost at the sink (%s) is copied again",
  async (alteration) => {
    await using pair = await streaming(begin, { isSupervised: true });
    await pair.sink(`alter table t ${alteration}`);
    await pair.source("insert into t values (3, 3, 'z')");
    await pair.expectEqual();
    // And while the table is in use.
    await pair.sink(
      `alter table t ${alteration === "drop column a" ? alteration : "rename column b to mine2"}`,
    );
    await pair.source("insert into t values (4, 4, 'z'); update t set b = 'u' where id = 1");
    await pair.expectEqual();
    await pair.sink("drop table t");
    await pair.source("insert into t values (5, 5, 'z')");
    await pair.expectEqual();
    await pair.stop();
  },
);

test("what somebody has built at the sink upon a column that goes, or gets another type, is named with the SQL", async () => {
  const tables = ["v", "m", "g", "f", "r"].map(
    (name) => `create table ${name} (id int primary key, a int, b int)`,
  );
  await using pair = await streaming(`${tables.join("; ")}; create table other (id int primary key)`);
  await pair.sink(`
    create schema "Mine"; create view "Mine"."v iew" as select a + 1 as x from v; create materialized view mat as select a from m;
    alter table g add column sum int generated always as (a + b) stored;
    alter table f add unique (a); create table child (a int references f (a));
    create function noted() returns trigger language plpgsql as 'begin return new; end';
    create trigger noting after update of a on r for each row execute function noted()`);
  await pair.source(
    `alter table v drop column a; alter table m alter a type text; alter table g alter a type bigint; alter table f drop column a;
     alter table r alter a type text; insert into m values (1, 'text'); insert into other values (1)`,
  );
  const commands = [
    'drop view "Mine"."v iew";',
    "drop materialized view public.mat;",
    "alter table public.g alter column sum drop expression;",
    "alter table public.child drop constraint child_a_fkey;",
    "drop trigger noting on public.r;",
  ];
  const told = async () =>
    (
      await pair.sink<{ command: string }>(
        "select unnest(commands) || ';' as command from millrace.set_aside",
      )
    ).map(({ command }) => command);
  await waitFor("the commands", async () => (await told()).toSorted().join() === commands.toSorted().join());
  await waitFor("the others", async () => (await pair.sink("select from other")).length === 1);
  for (const command of commands) await pair.sink(command);
  await pair.expectEqual();
  await pair.stop();
});

describe("tables that are renamed", () => {
  const two = `create table t (id int primary key, a text); insert into t values (1, 't');
    create table u (id int primary key, a text); insert into u values (1, 'u'), (2, 'u')`;
  const cases: readonly (readonly [sql: string, tables: readonly string[]])[] = [
    ["alter table t rename to v", ["u", "v"]],
    ["alter table t rename to v; insert into v values (9, 'v')", ["u", "v"]],
    ["create schema s; alter table t set schema s; insert into s.t values (9, 's')", ["s.t", "u"]],
    ["alter table t rename to old; alter table u rename to t; insert into t values (9, 'new')", ["old", "t"]],
    [
      "alter table t rename to x; alter table u rename to t; alter table x rename to u; insert into t values (9, 'swapped')",
      ["t", "u"],
    ],
    ["alter table t rename to x; insert into x values (9, 'x'); alter table x rename to t", ["t", "u"]],
    [
      "insert into t values (8, 't'); alter table t rename to x; alter table u rename to t; alter table x rename to u; insert into t values (9, 'u')",
      ["t", "u"],
    ],
    [
      "alter table t rename to v; create table t (id int primary key); insert into t values (5)",
      ["t", "u", "v"],
    ],
  ];

  const copied = (pair: PipelineRig) =>
    pair.phases.filter(({ phase, health }) => phase.name === "snapshot" && health.kind === "start").length;

  /** Each is made every day, one half of them while it is stopped. */
  const made = cases.flatMap(([sql, tables], i) => {
    const ways = pick([false, true], (stopped) => stopped === (i % 2 === 1));
    return ways.map((stopped) => [sql, stopped, tables] as const);
  });
  test.each(made)("%s (stopped: %p)", async (sql, stopped, tables) => {
    await using pair = await streaming(two);
    if (stopped) await pair.stop();
    await pair.source(sql);
    if (stopped) pair.start();
    await pair.expectEqual();
    const gone = sql.startsWith("drop") ? await pair.sink("select to_regclass('t') is null as gone") : [];
    expect(gone.every((row) => row.gone === true)).toBe(true);
    const found = await waitFor("the sink's tables", async () => {
      const rows = await pair.sink<{ name: string }>(
        `select oid::regclass::text as name from pg_class where relkind = 'r' and relnamespace not in
           ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'millrace'::regnamespace) order by 1`,
      );
      const names = rows.map(({ name }) => name);
      return names.join() === [...tables].join() ? names : null;
    });
    expect(found).toEqual([...tables]);
    // Two at the beginning; only tables that are new, or whose name somebody else's has, are copied later.
    const isNew = sql.includes("create table") || sql.startsWith("drop");
    expect(copied(pair)).toBe(isNew ? 3 : 2);
    await pair.stop();
  });

  test("to the name of one that was dropped is copied into that one's place", async () => {
    await using pair = await streaming(two);
    await pair.stop();
    await pair.source("drop table u; alter table t rename to u; insert into u values (9, 'u')");
    pair.start();
    await pair.expectEqual();
    await pair.stop();
  });
});

describe("columns that cannot be told apart any more", () => {
  test("one that was dropped and made anew, with rows before and after", async () => {
    await using pair = await streaming(begin);
    for (const when of ["live", "stopped"]) {
      if (when === "stopped") await pair.stop();
      await pair.source(
        `update t set a = 5; insert into t (id, a, b) values (${when === "live" ? 10 : 20}, 1, 'before')`,
      );
      await pair.source("alter table t drop column a");
      await pair.source("alter table t add column a int");
      await pair.source(`insert into t (id, a) values (${when === "live" ? 11 : 21}, 7)`);
      if (when === "stopped") pair.start();
      await pair.expectEqual();
    }
    await pair.stop();
  });

  test("those that nobody looked at before others came", async () => {
    const remake = "alter table t drop column a; alter table t add column a int";
    const rename = `${remake}; insert into t (id, a) values (7, 7); alter table t rename a to z`;
    const unseen = { pace: { tableCheckMs: 60_000 } };
    await using pair = await streaming(`${begin}; alter table t drop column b`, unseen);
    // The first change since the stream began is one of another shape.
    await pair.source(`${remake}; insert into t (id, a) values (3, 3)`);
    await pair.expectEqual();
    await pair.stop();
    await pair.source(`update t set a = 5; ${remake}; insert into t (id, a) values (4, 4); ${remake}`);
    pair.start();
    await pair.expectEqual();
    await pair.stop();
    await pair.source(rename);
    pair.start();
    await pair.expectEqual();
    expect(await columnsAtSink(pair)).toEqual(["id integer", "z integer"]);
    await pair.stop();
  });

  test("names that columns had while nobody looked, also where somebody else's publication tells which are sent", async () => {
    const tables =
      "create table t (id int primary key, a int); create table u (id int primary key, a int, b int)";
    const rows = "insert into t values (1, 1); insert into u values (1, 1, 10)";
    await using pair = await streaming(`${tables}; ${rows}; create publication mine for all tables`, {
      source: { replication_type: { logical_replication: logicalReplication("mine") } },
    });
    await pair.stop();
    await pair.source(`alter table t rename a to n; insert into t values (2, 5);
      alter table t drop column n; alter table t add column n int`);
    await pair.source(`alter table u drop column b; alter table u rename a to b; insert into u values (2, 20);
      alter table u rename b to c`);
    pair.start();
    await pair.expectEqual();
    expect(await columnsAtSink(pair, "u")).toEqual(["c integer", "id integer"]);
    await pair.stop();
  });

  test("one that came beside a new partition: nothing is copied again", async () => {
    await using pair = await PipelineRig.create(server, `shape_${++count}`, {
      isSupervised: true,
      source: { partitions_as_root: true },
    });
    await pair.source("create table t (id int primary key) partition by range (id)");
    await pair.source(
      "create table t1 partition of t for values from (0) to (10); insert into t values (1), (2)",
    );
    pair.start();
    await pair.expectEqual();
    const copies = pair.copies.length;
    await pair.stop();
    await pair.source(
      "create table t2 partition of t for values from (10) to (20); alter table t add column n int",
    );
    await pair.source("insert into t values (3, 3), (12, 12); update t set n = 1 where id = 1");
    pair.start();
    await pair.expectEqual();
    await pair.stop();
    expect(pair.copies.length).toBe(copies);
    expect(pair.silentChanges).toBe("");
  });

  test("one that was computed and no longer is, while it was stopped: its table is copied again", async () => {
    await using pair = await PipelineRig.create(server, `shape_${++count}`, { isSupervised: true });
    await pair.source("create table t (id int primary key, a int, g int generated always as (a * 2) stored)");
    await pair.source("insert into t values (1, 1)");
    pair.start();
    await pair.untilRealtime();
    await pair.stop();
    await pair.source("alter table t alter column g drop expression; insert into t values (2, 2, 2)");
    pair.start();
    await pair.expectEqual();
    await waitFor("the warning to be over", () => pair.silentChanges === "");
    await pair.stop();
  });

  test("several that came and went while the connector was stopped", async () => {
    await using pair = await streaming(begin);
    await pair.stop();
    await pair.source(`
      alter table t add column c jsonb default '{}'; insert into t values (3, 3, '3', '[]');
      alter table t drop column c; alter table t add column d int[]; insert into t values (4, 4, '4', '{1}');
      alter table t drop column d; alter table t add column e int; insert into t values (5, 5, '5', 5);
      alter table t rename e to f; insert into t values (6, 6, '6', 6)`);
    pair.start();
    await pair.expectEqual();
    await waitFor("no warning stands", () => pair.silentChanges === "");
    await pair.stop();
  });

  test("one whose new type does not take the default, or the numbers, that somebody gave it at the sink", async () => {
    const columns = "n int, s int, status text, small bigint";
    await using pair = await PipelineRig.streaming(
      server,
      `shape_${++count}`,
      {
        source: `create type mood as enum ('new', 'old'); create table t (id int primary key, ${columns}); insert into t values (1, 1, 1, 'old', 1)`,
        sink: `create table t (id int primary key, n int generated always as identity, s serial, status text default 'new', small bigint default 7)`,
      },
      { isSupervised: true },
    );
    await pair.expectEqual();
    await pair.source(`alter table t alter n type text, alter s type numeric, alter status type mood using status::mood, alter small type int;
      insert into t values (2, 'two', 2.5, 'new', 2)`);
    await pair.expectEqual();
    expect(await columnsAtSink(pair)).toEqual([
      "id integer",
      "n text",
      "s numeric",
      "small integer",
      "status mood",
    ]);
    expect(pair.copies).toHaveLength(1);
    // What is convertible stays.
    const kept = await pair.sink(
      "select attname as name from pg_attribute where attrelid = 't'::regclass and atthasdef order by 1",
    );
    expect(kept).toEqual([{ name: "s" }, { name: "small" }]);
    await pair.stop();
  });

  test("values that the sink's server cannot convert are copied", async () => {
    await using pair = await streaming(begin);
    await pair.source("alter table t alter b type int using length(b); insert into t values (3, 3, 3)");
    await pair.expectEqual();
    expect(await columnsAtSink(pair)).toEqual(["a integer", "b integer", "id integer"]);
    await pair.stop();
  });
});

test.each([
  `alter table t alter a type text using 'n' || a; insert into t values (4, 'n4', 'four');
    alter table t add column c int; insert into t values (5, 'n5', 'five', 5)`,
  "alter table t rename id to key; alter table t add column c int; insert into t values (4, 4, 'four', 4)",
])(
  "a table that was altered and dropped while the connector was stopped does not keep the others: %s",
  async (sql) => {
    await using pair = await streaming(`${begin}; create table other (id int primary key)`);
    await pair.stop();
    await pair.source(
      `insert into t values (3, 3, 'three'); ${sql}; drop table t; insert into other values (1)`,
    );
    pair.start();
    await pair.expectEqual();
    await pair.stop();
  },
);

test("rows of a table that was dropped do not come into the one that was made under its name", async () => {
  await using pair = await streaming(begin);
  await pair.stop();
  await pair.source("insert into t (id) values (9)");
  await pair.source("drop table t; create table t (id int primary key, a int, b text)");
  await pair.source("insert into t (id) values (1)");
  pair.start();
  await pair.expectEqual();
  await pair.stop();
});

test("tables that somebody holds locked keep the stream for a few seconds at most, and follow when they are let go", async () => {
  const names = Array.from({ length: 8 }, (_, i) => `l${i}`);
  await using pair = await streaming(
    [...names, "free"].map((name) => `create table ${name} (id int primary key, a int)`).join("; "),
  );
  await using holder = await server.connect(pair.sourceDatabase);
  await pair.source(names.map((name) => `alter table ${name} rename a to b`).join("; "));
  await holder.query(`begin; lock table ${names.join(", ")} in access exclusive mode`);
  for (const id of [1, 2, 3]) {
    await pair.source(`insert into free values (${id})`);
    const seen = async () => (await pair.sink("select from free")).length === id;
    await waitFor("the stream goes on", seen, { timeoutMs: 10_000 });
  }
  await holder.query("rollback");
  await pair.expectEqual();
  await pair.stop();
});
