// Histories of columns whose types the source has made itself, and alters, or somebody has chosen at the sink.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { MillraceError } from "../../src/errors/millrace-error.ts";
import { untilTold, withHistory } from "../support/history-tables.ts";
import { PipelineRig, type RigOptions } from "../support/pipeline-rig.ts";
import { PostgresServer } from "../support/postgres-server.ts";

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
