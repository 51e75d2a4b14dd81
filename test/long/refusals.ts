// What a Postgres sink does not take: the run stands at its place, says which table and which row by its key, and goes on by itself
// when somebody has mended the sink.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { RefusalRig } from "../support/pipeline/refusal-rig.ts";
import { waitFor } from "../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(90_000);

let rig: RefusalRig;
const setUp: RefusalRig["setUp"] = (...args) => rig.setUp(...args);

beforeAll(async () => {
  rig = await RefusalRig.start();
  await rig.sink.query("create role clerk login password 'clerk'");
});
afterAll(() => rig[Symbol.asyncDispose]());

const raising = (state: string) =>
  `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'secret %', new.v using errcode = '${state}'; end $$;
   create trigger refuse before insert or update on t for each row execute function refuse(); alter table t enable always trigger refuse`;
const plain = "create table t (id int primary key, v text)";
const two = "begin; insert into other values (1); insert into t values (1, 'one'); commit";

test.concurrent.each([
  [
    "a check",
    {
      tables: plain,
      breaking: "alter table t add constraint short check (length(v) < 4)",
      mending: "alter table t drop constraint short",
    },
    "Table public.t: The server refused a value that breaks a check: constraint short, table public.t (SQLSTATE 23514). The row is (id)=(7), of the transaction that was committed at",
  ],
  [
    "a unique index",
    {
      tables: plain,
      breaking: "insert into t values (-1, 'secret 7'); create unique index own on t (v)",
      mending: "delete from t where id = -1",
    },
    "Table public.t: The server refused a value that is there already: constraint own, table public.t (SQLSTATE 23505). The row is (id)=(7), of",
  ],
  [
    "a column that is too short",
    {
      tables: plain,
      breaking: "alter table t alter v type varchar(6)",
      mending: "alter table t alter v type text",
    },
    "The server refused a value that is too long for its column (SQLSTATE 22001). The row is (id)=(7), of",
  ],
  [
    "a trigger of the sink's own",
    { tables: plain, breaking: raising("P0001"), mending: "drop trigger refuse on t" },
    "Table public.t: The server refused a value in a trigger or a function: function public.refuse() (SQLSTATE P0001). The row is (id)=(1), of",
  ],
])("%s", async (_, { tables, breaking, mending }, reason) => {
  await using on = await setUp(tables);
  await on.sink(breaking);
  await on.source(two);
  await on.source("insert into t select i, 'secret ' || i from generate_series(7, 300) i");
  const text = await on.refusal();
  expect(text).toContain(reason);
  const told = JSON.stringify(
    on.run.failures.map(({ error, health }) => [error.message, error.stack, String(error.cause), health]),
  );
  expect(told).not.toContain("secret");
  await on.sink(mending);
  await on.goesOn();
});

const asClerk = () => ({
  before: `grant create on database refusal${rig.count + 1} to clerk; grant create, usage on schema public to clerk`,
  connection: { user: "clerk", password: "clerk" },
});
const alone = "create table alone (id int primary key)";

test.concurrent("a deferred constraint names the row that breaks it, and not those that did for a while", async () => {
  await using on = await setUp(`${plain}; insert into t values (1, 'a'), (2, 'b'); ${alone}`, asClerk());
  await on.sink(
    "alter table t add constraint own unique (v) deferrable initially deferred; insert into t values (-1, 'secret 8')",
  );
  await on.source("insert into alone values (1)");
  await on.source(
    `begin; update t set v = 'c' where id = 1; insert into t values (6, 'secret 6'); update t set v = 'a' where id = 2; update t set v = 'b' where id = 1;
     insert into t select i, 'secret ' || i from generate_series(7, 300) i; commit`,
  );
  await on.source("insert into alone values (2)");
  const reason =
    "Table public.t: The server refused a value that is there already: constraint own, table public.t (SQLSTATE 23505). The row is (id)=(8), of the transaction that was committed at";
  const text = await on.refusal();
  expect(text).toContain(reason);
  expect(text).not.toContain("secret");
  expect(await on.sink("select id from t order by id")).toEqual([{ id: -1 }, { id: 1 }, { id: 2 }]);
  expect(await on.sink("select id from alone")).toEqual([{ id: 1 }]);
  await on.sink("delete from t where id = -1");
  await on.goesOn();
});

test.concurrent("a deferred constraint that refuses a transaction in pieces, and one that a row broke which should not be there", async () => {
  await using on = await setUp(plain, { ...asClerk(), bufferedRows: 500 });
  await on.sink(
    "alter table t add constraint own unique (v) deferrable initially deferred; insert into t values (-1, 'secret 7')",
  );
  // More than one read of the socket brings.
  await on.source(
    "insert into t select i, 'secret ' || i || repeat('x', case i when 7 then 0 else 500 end) from generate_series(1, 8000) i",
  );
  const text = await on.refusal();
  expect(text).toContain("Table public.t: The server refused a value that is there already: constraint own,");
  expect(text).toContain("It is a row, of the transaction that was committed at");
  expect(text).not.toContain("secret");
  await on.sink(
    "alter table t drop constraint t_pkey; alter table t add primary key (id) deferrable initially deferred",
  );
  await on.sink("delete from t where id = -1; insert into t values (90000, 'x')");
  await on.source("insert into t values (90000, 'y')");
  await on.goesOn();
});

test.concurrent("a constraint trigger at the end of the transaction", async () => {
  await using on = await setUp(plain);
  await on.sink(
    `create function refuse() returns trigger language plpgsql as $$ begin if new.id >= 7 then raise exception 'secret %', new.v; end if; return null; end $$;
     create constraint trigger refuse after insert or update on t deferrable initially deferred for each row execute function refuse();
     alter table t enable always trigger refuse`,
  );
  await on.source(two);
  await on.source("insert into t select i, 'secret ' || i from generate_series(5, 300) i");
  const text = await on.refusal();
  expect(text).toContain(
    "Table public.t: The server refused a value in a trigger or a function: function public.refuse() (SQLSTATE P0001). The row is (id)=(7), of",
  );
  expect(text).not.toContain("secret");
  await on.sink("drop trigger refuse on t");
  await on.goesOn();
});

test.concurrent("what was committed before a refused row is there, and nothing of its transaction", async () => {
  await using on = await setUp(plain, { bufferedRows: 20 });
  await on.sink("alter table t add constraint short check (v <> 'secret')");
  await on.source(two);
  await on.source(
    "begin; insert into t select i, 'x' from generate_series(2, 100) i; insert into t values (101, 'secret'); commit",
  );
  expect(await on.refusal()).toContain("The row is (id)=(101), of");
  expect(await on.sink("select id from t")).toEqual([{ id: 1 }]);
  expect(await on.sink("select id from other")).toEqual([{ id: 1 }]);
  await on.sink("alter table t drop constraint short");
  await on.goesOn();
});

test.concurrent("a row that the copy brings", async () => {
  const before = "create table t (id int primary key, v text check (v <> 'secret'))";
  const rows =
    "insert into t select i, 'x' from generate_series(1, 9) i; insert into t values (10, 'secret')";
  await using on = await setUp(`${plain}; ${rows}`, { before, isRefusedAtOnce: true });
  const text = await on.refusal();
  expect(text).toContain(
    "Table public.t: The server refused a value that breaks a check: constraint t_v_check",
  );
  expect(text).toContain("It is row 10 of the copy: (id)=(10).");
  expect(text).not.toContain("secret");
  await on.sink("alter table t drop constraint t_v_check");
  await on.goesOn();
});

test.concurrent("a privilege that the role has no more, with the SQL that mends it", async () => {
  await using on = await setUp(plain, asClerk());
  await on.sink("alter table t owner to current_user");
  await on.source(two);
  const text = await on.refusal();
  expect(text).toContain("Table public.t: The role lacks a privilege: permission denied for table t");
  await on.sink(/Run: (GRANT .+;)$/.exec(text)?.[1] ?? "");
  await on.goesOn();
});

test.concurrent("a table that somebody has locked, for longer than operation_lock_timeout_seconds", async () => {
  await using on = await setUp(plain, { connection: { operation_lock_timeout_seconds: 1 } });
  {
    await using holder = await on.connectSink();
    await holder.query("begin; lock table t in access exclusive mode");
    await on.source(two);
    expect(await on.refusal()).toContain(
      "Table public.t: The server says: canceling statement due to lock timeout",
    );
  }
  await on.goesOn();
});

test.concurrent("a table that somebody has locked, without a bound: the status tells who", async () => {
  await using on = await setUp(plain);
  {
    await using holder = await on.connectSink();
    await holder.query("begin; lock table t in access exclusive mode");
    await on.source(two);
    const shown = () => on.run.status?.status.warning?.reason ?? "";
    await waitFor("a status that tells of the lock", () => shown() !== "", { timeoutMs: 30_000 });
    const [{ pid }] = (await holder.query<{ pid: number }>("select pg_backend_pid() as pid")).rows as [
      { pid: number },
    ];
    expect(shown()).toContain(`waits for a lock on table public.t that process ${pid} `);
    expect(shown()).toContain(`SELECT pg_terminate_backend(${pid});`);
  }
  await on.goesOn();
  await waitFor("a status without the lock", () => on.run.status?.status.warning === undefined);
  expect(on.run.failures).toEqual([]);
});

test.concurrent("a change that migration_strategy does not allow keeps its table alone, and the status lists it", async () => {
  await using on = await setUp(plain, { migration: { allowed: [] } });
  await on.source("alter table t add column w int");
  await on.source("insert into t values (1, 'secret', 1); insert into other values (1)");
  await waitFor("the table to be set aside", () => on.run.setAside.length > 0, { timeoutMs: 30_000 });
  const [table] = on.run.setAside;
  expect(table).toMatchObject({
    schema: "public",
    name: "t",
    since_lsn: expect.stringMatching(/^[0-9A-F]+\/[0-9A-F]+$/),
  });
  expect(table?.commands).toEqual(['alter table "public"."t" add column "w" integer;']);
  await waitFor("the other table", async () => (await on.sink("select from other")).length === 1);
  const shown = () => on.run.status?.status.warning?.reason ?? "";
  await waitFor("a status that tells of it", () => shown().includes("Table public.t is set aside"));
  await on.sink(table?.commands.join(" ") ?? "");
  await on.goesOn();
  await waitFor("no table to be set aside", () => on.run.setAside.length === 0);
  expect(on.run.failures).toEqual([]);
});
