// A task copies a table that was altered, while changes from before that are still behind the stream.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

interface Ahead {
  readonly tables: string;
  readonly rows: string;
  /** What is still behind the stream when the task copies the table. */
  readonly changes: readonly string[];
  /** Called before these changes. */
  readonly before?: (pair: PipelineRig) => Promise<void>;
}

function catalogWith(table: Catalog["schemas"][number]["tables"][number]): Catalog {
  const schemas: Catalog["schemas"] = [{ name: "public", tables: [table], action: "Include" }];
  return { name: "any", default_action: "Include", schemas };
}

const tables = "create table t (id int primary key, a int, b text)";
const rows = "insert into t select g, g, 'row' from generate_series(1, 500) g";
const each = (sql: string) => `do $$ begin for i in 1..500 loop ${sql}; commit; end loop; end $$`;

/** The sink has 500 rows of `t`; the task's copy lacks them, and the stream has most of their deletes still to bring. */
const deleted: Ahead = {
  tables,
  rows,
  changes: [
    each("delete from t where id = i"),
    "alter table t rename a to c; insert into t values (501, 501, 'last')",
  ],
};

/** With each deletion comes a row that the sink takes slowly: however late the copy ends, the stream is behind it. */
const slowed: Ahead = {
  ...deleted,
  tables: `${tables}; create table w (id int primary key)`,
  before: async (pair) => {
    await pair.sink(
      `create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.01); return new; end $$;
      create trigger slowly before insert on w for each row execute function slowly();
      alter table w enable always trigger slowly`,
    );
  },
  changes: [each("delete from t where id = i; insert into w values (i)"), ...deleted.changes.slice(1)],
};

/** A task has copied the table `t`, and the stream is behind that. */
async function copiedAhead(
  options: RigOptions,
  { tables, rows, changes, before = async () => {} }: Ahead = deleted,
) {
  const id = crypto.randomUUID().slice(0, 8);
  const some = { isSupervised: true, maxBufferedRows: 7, ...options };
  const source = `${tables}; create table u (id int primary key)`;
  const pair = await PipelineRig.streaming(server, `ahead_${id}`, { source }, some);
  await pair.source(`${rows}; insert into u values (1)`);
  await pair.expectSame("select id from t union all select id from u order by 1");
  // The stream waits for the copy of `u`, so that what comes meanwhile is behind it when the other task begins.
  await pair.source("alter table u add column a int");
  const copied: Promise<unknown>[] = [];
  pair.beforePoint = async () => {
    if (copied.length > 0) return;
    await before(pair);
    copied.push(pair.snapshot("t", false));
    for (const sql of changes) await pair.source(sql);
  };
  expect(await pair.snapshot("u", false)).toBeNull();
  expect(await Promise.all(copied)).toEqual([null]);
  return pair;
}

test("the table is copied again, and the stream waits for that", async () => {
  await using pair = await copiedAhead({});
  await pair.expectEqual();
  await pair.stop();
});

test("a unique value that another row has by now is brought to its former row before the copy", async () => {
  await using pair = await PipelineRig.streaming(
    server,
    "ahead_unique",
    { source: `${tables}; ${rows}`, sink: "create table t (id int primary key, a int unique, b text)" },
    { maxBufferedRows: 7 },
  );
  await pair.expectSame("select id from t order by id");
  // The stream stands, and the copy is as of a point behind all of these.
  pair.beforePoint = async () => {
    pair.beforePoint = async () => {};
    await pair.source("update t set b = 'earlier' where id = 1");
    await pair.source(each("update t set b = 'other' where id = i and i > 1"));
    await pair.source("update t set a = -1 where id = 1; insert into t values (501, 1, 'new')");
  };
  expect(await pair.snapshot("t", false)).toBeNull();
  await pair.source("insert into t values (502, 502, 'last')");
  await pair.expectEqual();
  await pair.stop();
});

test("the table is copied again while somebody has locked another one, which waits to be published", async () => {
  await using locks = new AsyncDisposableStack();
  const before = async (pair: PipelineRig) => {
    await pair.source("create table v (id int primary key); insert into v values (1)");
    const holder = locks.use(await pair.sourceSession());
    await holder.query("begin; lock table v in share mode");
  };
  await using pair = await copiedAhead({}, { ...deleted, before });
  await pair.expectSame("select id from t order by id", 20_000);
  expect(pair.warnings.some((reason) => reason.includes("public.v is locked"))).toBe(true);
  await locks.disposeAsync();
  await pair.expectEqual();
  await pair.stop();
});

test("without copies of its own the connector goes on, warns of the deletes, and a task that truncates mends them", async () => {
  await using pair = await copiedAhead({ skipSnapshots: true }, slowed);
  const isTold = (reason: string) =>
    reason.includes("Rows of public.t that were deleted") && reason.includes("may be left at the sink");
  await waitFor("the warning", () => pair.warnings.some(isTold));
  await pair.source("insert into t values (502, 502, 'new')");
  await waitFor("the stream", async () => (await pair.sink("select from t where c = 502")).length === 1);
  expect(await pair.snapshot("t", true)).toBeNull();
  await pair.expectEqual();
  await pair.stop();
});

test("the table leaves the catalog then, by another name: its changes are left out, and the connector goes on", async () => {
  const catalog = catalogWith({ name: "hidden", columns: [], action: "Exclude", history_enabled: false });
  await using pair = await copiedAhead({ source: { catalog } });
  await pair.crash();
  await pair.source("alter table t rename to hidden; insert into u values (2)");
  pair.start();
  await pair.expectSame("select id from u order by id");
  // It comes back.
  await pair.source("alter table hidden rename to t");
  await pair.expectEqual();
  await pair.stop();
});

test("a column comes to the catalog then, and without copies of its own the connector goes on and names a task", async () => {
  const columns: { name: string; action: "Exclude" }[] = [{ name: "b", action: "Exclude" }];
  const source = { catalog: catalogWith({ name: "t", columns, action: "Include", history_enabled: false }) };
  await using pair = await copiedAhead({ skipSnapshots: true, source }, slowed);
  await pair.crash();
  await pair.sink("drop trigger slowly on w");
  await pair.source("insert into u values (2)");
  pair.reconfigure({ catalog: catalogWith({ ...source.catalog.schemas[0]!.tables[0]!, columns: [] }) });
  pair.start();
  await pair.expectSame("select id from u order by id");
  const isTold = (reason: string) =>
    reason.includes("Changes of public.t from before") && reason.includes("task with truncate");
  await waitFor("the warning", () => pair.warnings.some(isTold));
  expect(await pair.snapshot("t", true)).toBeNull();
  await pair.expectEqual();
  await pair.stop();
});

test("a column took the place of another one of its name and type, and its value in an earlier row stays", async () => {
  await using pair = await copiedAhead(
    {},
    {
      // The stream has not named the columns yet. When it does, the table has both, and they cannot be told apart.
      tables: `${tables}; ${rows}`,
      rows: "select",
      changes: [
        each("insert into u values (100 + i)"),
        "insert into t values (501); alter table t drop column b; alter table t add column b text default 'value'",
      ],
    },
  );
  await pair.source("insert into u values (1000)");
  await pair.expectSame("select id from u order by id");
  await pair.expectEqual();
  await pair.stop();
});
