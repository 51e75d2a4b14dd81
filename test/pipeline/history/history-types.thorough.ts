// Histories of columns whose types the source has made itself, and alters, or somebody has chosen at the sink, and of
// tables that are made anew with other types.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { untilTold, withHistory } from "../../support/oracles/history-tables.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rig = (options: RigOptions = {}) =>
  PipelineRig.create(server, `histypes${++count}`, {
    isSupervised: true,
    source: { catalog: withHistory("t") },
    ...options,
  });

test.each([
  ["whole transactions", 0],
  ["pieces of them", 1],
] as const)(
  "a label that is renamed behind a backlog, in %s: the table is copied again, and its history gets what differs",
  async (_, maxBufferedRows) => {
    await using pair = await rig({ maxBufferedRows });
    await pair.source(
      "create type mood as enum ('a', 'b'); create table t (id int primary key, m mood); insert into t values (1, 'a'), (2, 'b')",
    );
    pair.start();
    await pair.untilRealtime();
    await untilTold(pair, "id", "t_history", 2);
    await pair.stop();
    await pair.source("begin; update t set m = 'a' where id = 2; insert into t values (3, 'b'); commit");
    await pair.source("alter type mood rename value 'b' to 'the other'");
    await pair.source("insert into t values (4, 'the other')");
    pair.start();
    await pair.expectEqual();
    expect((await untilTold(pair, "id, m", "t_history", 5)).toSorted()).toEqual([
      ...["r 1|a", "r 2|a", "r 2|the other", "r 3|the other", "r 4|the other"],
    ]);
    await pair.source("update t set m = 'a' where id = 3");
    expect((await untilTold(pair, "id, m", "t_history", 6)).at(-1)).toBe("u 3|a");
    expect(await pair.sink("select id, m::text from t_versions where is_current order by id")).toEqual([
      ...[
        { id: 1, m: "a" },
        { id: 2, m: "a" },
        { id: 3, m: "a" },
        { id: 4, m: "the other" },
      ],
    ]);
    await pair.stop();
  },
);

test("a history that refuses a row for a reason that nobody finds: the row's values are not reported", async () => {
  await using pair = await rig({ isSupervised: false });
  await pair.source("create table t (id int primary key, v text)");
  pair.start();
  await pair.untilRealtime();
  await pair.source("insert into t values (1, 'a')");
  await untilTold(pair, "id", "t_history", 1);
  await pair.sink(`create function refuse() returns trigger language plpgsql as $$ begin
      raise exception 'no %', new.v using errcode = 'check_violation'; end $$;
    create trigger refuse before insert on t_history for each row execute function refuse();
    alter table t_history enable always trigger refuse`);
  await pair.source("insert into t values (2, 'secret')");
  const failure = (await pair.ended()) as Error;
  expect(failure.message).toStartWith("The history public.t_history at the sink refuses a row.");
  expect(failure.message).toContain("function public.refuse()");
  expect(failure.message).not.toContain("secret");
});

test("a composite type that loses an attribute: the columns of its old type stay under other names, and new ones begin", async () => {
  await using pair = await rig();
  await pair.source(`create type addr as (street text, zip text); create table t (id int primary key, a addr, past addr[]);
    insert into t values (1, row('Elm', '1'), array[row('Oak', '2')::addr])`);
  pair.start();
  await pair.untilRealtime();
  await untilTold(pair, "id", "t_history", 1);
  await pair.source("alter type addr drop attribute zip");
  await pair.source("insert into t values (2, row('Ash'), null)");
  await pair.expectEqual();
  const rows = await untilTold(pair, "id, a, past", "t_history", 3);
  expect(pair.setAside).toEqual([]);
  const values = rows.map((row) => row.slice(2));
  expect(values.toSorted()).toEqual(["1|(Elm)|{(Oak)}", "1|~|~", "2|(Ash)|~"]);
  await pair.source("update t set a = row('Fir') where id = 2");
  expect((await untilTold(pair, "id, a, past", "t_history", 4)).at(-1)).toBe("u 2|(Fir)|~");
  expect(
    await pair.sink(
      "select a_before_1::text as a, past_before_1::text as past from t_history where a_before_1 is not null",
    ),
  ).toEqual([{ a: "(Elm,1)", past: '{"(Oak,2)"}' }]);
  await pair.stop();
});

test.each([
  ["a key", "id bigint primary key, v text", "id int primary key, v text", "4000000000, 'new'"],
  ["a text", "id int primary key, v text", "id int primary key, v varchar(3)", "2, 'longer'"],
])(
  "a type at the sink that somebody has chosen, for %s, refuses a value: the SQL that is told mends the history too",
  async (_, own, atSink, row) => {
    const begin = `create table t (${own}); insert into t values (1, 'old')`;
    await using pair = await rig({ isSupervised: false });
    await pair.source(begin);
    await pair.sink(`create table t (${atSink})`);
    pair.start();
    await untilTold(pair, "id, v", "t_history", 1);
    await pair.source(`insert into t values (${row}); update t set v = 'two' where v <> 'old'`);
    const failure = (await pair.ended()) as MillraceError;
    expect(failure.code).toBe("sink_rejected_rows");
    expect(failure.table?.commands).toHaveLength(1);
    await pair.sink(failure.table!.commands[0]!);
    pair.start();
    await pair.expectSame("select id::text, v::text from t order by id");
    const [id, v] = row.split(", ").map((value) => value.replaceAll("'", ""));
    expect(await untilTold(pair, "id, v", "t_history", 3)).toEqual([
      "r 1|old",
      `c ${id}|${v}`,
      `u ${id}|two`,
    ]);
  },
);

const narrow = "id int primary key, s varchar(5), i int, n numeric(5,2), x text";
const wide = "id bigint primary key, s text, i bigint, n numeric(12,4), x int";
const byMonths = `begin; alter table t_history rename to former; create table t_history (like former) partition by range (_sm_committed_at);
  alter table t_history add primary key (_sm_lsn, _sm_ordinal, _sm_committed_at); create index on t_history (id, _sm_lsn, _sm_ordinal);
  comment on table t_history is 'made by millrace: every change of a table, never rewritten';
  create table t_history_rest partition of t_history default;
  insert into t_history select * from former; drop table former cascade; commit`;

test.each([
  ["follow", "select", "i"],
  [
    "stay under another name where a view has them",
    "create view mine as select i from t_history",
    "i_before_1",
  ],
  ["follow by months", byMonths, "i"],
])("a table is made anew with other types: the sink's follow, and the history's %s", async (_, atSink, i) => {
  await using pair = await rig();
  await pair.source(`create table t (${narrow}); insert into t values (1, 'a', 1, 1.25, 'seven')`);
  pair.start();
  await untilTold(pair, "id", "t_history", 1);
  await pair.stop();
  await pair.sink(atSink);
  await pair.source(`drop table t; create table t (${wide}); insert into t values (1, 'a', 1, 1.2345, 7)`);
  pair.start();
  expect((await untilTold(pair, "id, s, i, n, x", "t_history", 2)).slice(1)).toEqual(["r 1|a|1|1.2345|7"]);
  await pair.source("insert into t values (4000000000, 'longer', 4000000000, 12345.1234, 8)");
  await pair.expectEqual();
  expect((await untilTold(pair, "id, s, i, n, x", "t_history", 3)).slice(2)).toEqual([
    "c 4000000000|longer|4000000000|12345.1234|8",
  ]);
  const before = `select id::int, ${i}::int as i, n, x_before_1 as x from t_history where id = 1 order by _sm_lsn, _sm_ordinal limit 1`;
  expect(await pair.sink<object>(before)).toEqual([{ id: 1, i: 1, n: "1.2500", x: "seven" }]);
  await pair.stop();
});

test("a table is made anew with another type, and may not be altered: it is set aside, and its history follows the SQL that is told", async () => {
  const allowed = ["Add" as const, "Drop" as const];
  await using pair = await rig({ sink: { migration_strategy: { allowed, disable_all: false } } });
  await pair.source("create table t (id int primary key); insert into t values (1)");
  pair.start();
  await untilTold(pair, "id", "t_history", 1);
  await pair.source("drop table t; create table t (id bigint primary key); insert into t values (1)");
  await waitFor("it to be set aside", () => pair.setAside.length === 1);
  const commands = ['alter table "public"."t" alter column "id" type bigint using "id"::bigint'];
  expect(pair.setAside[0]?.commands).toEqual(commands);
  await pair.source("insert into t values (4000000000)");
  await pair.sink(commands[0]!);
  await pair.expectEqual();
  expect(await untilTold(pair, "id", "t_history", 2)).toContain("r 4000000000");
  await pair.source("insert into t values (4000000001)");
  expect((await untilTold(pair, "id", "t_history", 3)).at(-1)).toBe("c 4000000001");
  await pair.stop();
});
