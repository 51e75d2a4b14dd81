// What a connector leaves out, and what becomes of it when the selection or the tables change.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Catalog } from "../../../src/connector/config/catalog.ts";
import { fullConnection, logicalReplication } from "../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../support/pipeline/pipeline-rig.ts";
import { memorySourceState } from "../../support/pipeline/source-state.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const create = (options: RigOptions) => PipelineRig.create(server, `sel${++count}`, options);

/** A catalog that includes everything but the named tables and columns: `{ t: ["secret"], gone: null }`. */
function without(excluded: Readonly<Record<string, readonly string[] | null>>): Catalog {
  const tables = Object.entries(excluded).map(([name, columns]) => ({
    name,
    action: columns === null ? ("Exclude" as const) : ("Include" as const),
    history_enabled: false,
    columns: (columns ?? []).map((column) => ({ name: column, action: "Exclude" as const })),
  }));
  return {
    name: "db",
    default_action: "Include",
    schemas: [{ name: "public", action: "Include", tables }],
  };
}

/** Waits until `columns` of `table` are the same on both sides. */
async function untilSame(rig: PipelineRig, columns: string, table = "t"): Promise<void> {
  const sql = `select ${columns} from ${table} order by ${columns}`;
  const same = async () => Bun.deepEquals(await rig.source(sql), await rig.sink(sql));
  await waitFor("the same rows", same).catch(() => {});
  expect(await rig.sink(sql)).toEqual(await rig.source(sql));
}

async function columnsAtSink(rig: PipelineRig, table = "t"): Promise<readonly string[]> {
  const rows = await rig.sink<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped order by attnum`,
  );
  return rows.map(({ name }) => name);
}

async function listed(rig: PipelineRig): Promise<object[]> {
  return await rig.source(
    `select pubname, tablename, attnames::text from pg_publication_tables where pubname like 'millrace\\_${rig.sourceDatabase.replace("_source", "")}%' order by 2`,
  );
}

describe("data that is left out", () => {
  test("never passes the wire, in the copy nor in the stream", async () => {
    await using proxy = await TcpProxy.start(server.port);
    await using rig = await create({ source: { catalog: without({ t: ["secret"], hidden: null }) } });
    const connection = fullConnection(
      { ...server.connection(rig.sourceDatabase), port: proxy.port },
      { ssl_mode: "Disable" },
    );
    rig.reconfigure({ connection });
    await rig.source(`create table t (id int primary key, v text, secret text, w int);
      create table keyless (v text, secret text); create table hidden (id int primary key, v text);
      insert into t values (1, 'shown 1', 'S3CRET', 1); insert into hidden values (1, 'S3CRET')`);
    const passed = proxy.record();
    rig.start();
    await rig.untilRealtime();
    await rig.source(`insert into t values (2, 'shown 2', 'S3CRET', 2), (3, 'shown 3', 'S3CRET', 3);
      update t set secret = 'S3CRET again', v = 'shown too' where id = 1; update t set id = 30 where id = 3;
      update t set secret = 'S3CRET alone' where id = 2; delete from t where id = 30;
      insert into hidden values (2, 'S3CRET'); insert into t values (4, 'shown 4', 'S3CRET', 4)`);
    await untilSame(rig, "id, v, w");
    expect(await columnsAtSink(rig)).toEqual(["id", "v", "w"]);
    expect(await rig.sink("select from pg_class where relname = 'hidden'")).toEqual([]);
    expect(passed().includes("shown 4")).toBe(true);
    expect(passed().includes("S3CRET")).toBe(false);
    await rig.stop();
  });

  test("is dropped on arrival under REPLICA IDENTITY FULL: a list would make the application's own statements fail", async () => {
    await using rig = await create({ source: { catalog: without({ t: ["secret"] }) } });
    await rig.source(`create table t (id int primary key, v text, secret text); alter table t replica identity full;
      insert into t values (1, 'a', 's'), (2, 'b', 's')`);
    rig.start();
    await rig.untilRealtime();
    await rig.source("update t set v = 'c', secret = 'x' where id = 1; delete from t where id = 2");
    await untilSame(rig, "id, v");
    expect(await listed(rig)).toMatchObject([{ attnames: "{id,v,secret}" }]);
    await rig.stop();
  });

  test("is dropped on arrival from PostgreSQL 14, which has no lists: also a column that is added and one that comes back", async () => {
    await using old = await PostgresServer.start({ major: 14, settings: { fsync: "off" } });
    await using rig = await PipelineRig.create(old, "old", {
      source: { catalog: without({ t: ["secret"] }) },
    });
    await rig.source(
      "create table t (id int primary key, secret text, v text); insert into t values (1, 's', 'a')",
    );
    rig.start();
    await rig.untilRealtime();
    await rig.source(
      "alter table t add column c int; insert into t values (2, 's', 'b', 2); update t set v = 'c' where id = 1",
    );
    await untilSame(rig, "id, v");
    await untilSame(rig, "id, v, c");
    expect(await columnsAtSink(rig)).toEqual(["id", "v", "c"]);
    await rig.stop();
    rig.reconfigure({ catalog: without({}) });
    rig.start();
    await rig.untilRealtime();
    await untilSame(rig, "id, v, c, secret");
    await rig.stop();
  });

  test("of a table without a key is left out of its list", async () => {
    await using rig = await create({ source: { catalog: without({ t: ["secret"] }) } });
    await rig.source("create table t (v text, secret text); insert into t values ('a', 's')");
    rig.start();
    await rig.untilRealtime();
    await rig.source("insert into t values ('b', 's'); update t set v = 'z' where v = 'none'");
    await untilSame(rig, "v");
    expect(await listed(rig)).toMatchObject([{ attnames: "{v}" }]);
    await rig.stop();
  });

  test("of partitions, by root and by leaf", async () => {
    for (const asRoot of [true, false]) {
      const tables = asRoot ? { t: ["secret"] } : { t_1: ["secret"], t_2: ["secret"] };
      await using rig = await create({ source: { catalog: without(tables), partitions_as_root: asRoot } });
      await rig.source(`create table t (id int primary key, v text, secret text) partition by range (id);
        create table t_1 partition of t for values from (0) to (10);
        create table t_2 (secret text, v text, id int not null); alter table t attach partition t_2 for values from (10) to (20);
        insert into t values (1, 'a', 's'), (11, 'b', 's')`);
      rig.start();
      await rig.untilRealtime();
      await rig.source(`insert into t values (2, 'c', 's'), (12, 'd', 's'); update t set v = 'moved', id = 13 where id = 1;
        update t set secret = 'x'; delete from t where id = 11`);
      for (const table of Object.keys(tables)) {
        await untilSame(rig, "id, v", table);
        expect(await columnsAtSink(rig, table)).not.toContain("secret");
      }
      expect(JSON.stringify(await listed(rig))).not.toContain("secret");
      await rig.stop();
    }
  });

  test("cannot be a column that tells rows apart", async () => {
    for (const identity of ["primary key (id)", "unique (id)"]) {
      await using rig = await create({ source: { catalog: without({ t: ["id"] }) } });
      await rig.source(`create table t (id int not null, v int, ${identity})`);
      if (identity.startsWith("unique"))
        await rig.source("alter table t replica identity using index t_id_key");
      rig.start();
      expect(await rig.ended()).toMatchObject({
        code: "invalid_request",
        message: expect.stringMatching(
          /column id, which is part of the (primary key|replica identity) of public\.t/,
        ),
      });
    }
  });
});

describe("a table with a list of columns that changes", () => {
  const excluding = { source: { catalog: without({ t: ["secret"] }) }, isSupervised: true };
  const withRows =
    "create table t (id int primary key, v text, secret text); insert into t values (1, 'a', 's'), (2, 'b', 's')";

  test("a column that is added has its values also in rows that were written before it was listed", async () => {
    // A row that comes before the look makes the sink ask for the copy: the run begins again.
    await using rig = await create({ ...excluding, isSupervised: true });
    await rig.source(withRows);
    rig.start();
    await rig.untilRealtime();
    await rig.source(
      "alter table t add column c int; insert into t values (3, 'x', 's', 3); update t set c = 10 where id = 1",
    );
    await untilSame(rig, "id, v");
    await rig.source("insert into t values (4, 'y', 's', 4)");
    await untilSame(rig, "id, v, c");
    expect(await listed(rig)).toMatchObject([{ attnames: "{id,v,c}" }]);
    await rig.stop();
  });

  test("and also when the connector was stopped meanwhile, or is killed before it has listed it", async () => {
    await using rig = await create(excluding);
    await rig.source(withRows);
    rig.start();
    await rig.untilRealtime();
    await rig.stop();
    await rig.source(
      "alter table t add column c int default 7; insert into t values (3, 'x', 's', 3); update t set c = 10 where id = 1",
    );
    rig.start();
    await waitFor("a phase", () => rig.phases.length > 0);
    await rig.crash();
    rig.start();
    await untilSame(rig, "id, v, c");
    await rig.stop();
  });

  test("a transaction that was open when the column was listed is whole as well", async () => {
    await using rig = await create(excluding);
    await rig.source(withRows);
    rig.start();
    await rig.untilRealtime();
    await using open = await server.connect(rig.sourceDatabase);
    await rig.source("alter table t add column c int");
    await open.query("begin; insert into t values (3, 'x', 's', 3)");
    await waitFor("the list", async () => JSON.stringify(await listed(rig)).includes("{id,v,c}"));
    await open.query("insert into t values (4, 'y', 's', 4); commit");
    await untilSame(rig, "id, v, c");
    await rig.stop();
  });

  test("a listed column that is dropped takes the table out of the publication: it is copied again", async () => {
    await using rig = await create(excluding);
    await rig.source(withRows);
    rig.start();
    await rig.untilRealtime();
    await rig.source(
      "alter table t drop column v cascade; insert into t values (3, 's'); delete from t where id = 1",
    );
    await waitFor("the table's return", async () => (await listed(rig)).length === 1);
    await rig.source("insert into t values (4, 's')");
    await untilSame(rig, "id");
    await rig.stop();
  });

  test("identity FULL makes it a whole table again, and default a listed one", async () => {
    await using rig = await create(excluding);
    await rig.source(withRows);
    rig.start();
    await rig.untilRealtime();
    await rig.source("alter table t replica identity full");
    await waitFor("no list", async () => JSON.stringify(await listed(rig)).includes("{id,v,secret}"));
    await rig.source("update t set v = 'full' where id = 1; insert into t values (3, 'c', 's')");
    await untilSame(rig, "id, v");
    await rig.source("alter table t replica identity default");
    await waitFor("the list", async () => JSON.stringify(await listed(rig)).includes("{id,v}"));
    await rig.source("update t set v = 'default' where id = 1; delete from t where id = 2");
    await untilSame(rig, "id, v");
    await rig.stop();
  });

  test("a publication of the user's that is widened later: what it left out is copied", async () => {
    await using rig = await create({
      source: { ...excluding.source, replication_type: { logical_replication: logicalReplication("own") } },
    });
    await rig.source(`${withRows}; create publication own for table t (id, v)`);
    rig.start();
    await rig.untilRealtime();
    await rig.source("alter table t add column c int; insert into t values (3, 'x', 's', 3)");
    expect(await rig.ended()).toMatchObject({ code: "publication_mismatch" });
    await rig.source("alter publication own set table t (id, v, c); insert into t values (4, 'y', 's', 4)");
    rig.start();
    await untilSame(rig, "id, v, c");
    await rig.stop();
  });

  test("a table that somebody took out of the publication is copied again", async () => {
    await using rig = await create({});
    await rig.source("create table t (id int primary key, v text); insert into t values (1, 'a'), (2, 'b')");
    rig.start();
    await rig.untilRealtime();
    await rig.stop();
    await rig.source(
      `alter publication ${rig.slot} drop table t; delete from t where id = 1; insert into t values (3, 'c')`,
    );
    rig.start();
    await untilSame(rig, "id, v");
    await rig.stop();
  });
});

describe("a selection that is changed", () => {
  test("tables: one that is included is copied, one that is excluded stops, and is copied anew later", async () => {
    await using rig = await create({ source: { catalog: without({ b: null }) } });
    await rig.source(`create table a (id int primary key, v int); create table b (id int primary key, v int);
      insert into a values (1, 1), (2, 2); insert into b values (1, 1), (2, 2)`);
    rig.start();
    await rig.untilRealtime();
    await rig.stop();
    rig.reconfigure({ catalog: without({ a: null }) });
    await rig.source("insert into a values (3, 3); insert into b values (3, 3)");
    rig.start();
    await rig.untilRealtime();
    await untilSame(rig, "id, v", "b");
    // What was made before the exclusion is no longer decoded: only what is selected now counts.
    expect(await rig.sink("select id from a order by id")).toEqual([{ id: 1 }, { id: 2 }]);
    await rig.stop();
    await rig.source(
      "delete from a where id = 1; update a set v = 20 where id = 2; insert into b values (4, 4)",
    );
    rig.reconfigure({ catalog: without({}) });
    rig.start();
    await rig.untilRealtime();
    await untilSame(rig, "id, v", "a");
    await untilSame(rig, "id, v", "b");
    await rig.stop();
  });

  for (const identity of ["default", "full"]) {
    test(`columns: one that is excluded is left alone, one that is included is filled (identity ${identity})`, async () => {
      await using rig = await create({ source: { catalog: without({ t: ["y"] }) } });
      await rig.source(`create table t (id int primary key, x text, y text); alter table t replica identity ${identity};
        insert into t values (1, 'x1', 'y1'), (2, 'x2', 'y2')`);
      rig.start();
      await rig.untilRealtime();
      await rig.stop();

      rig.reconfigure({ catalog: without({ t: ["x", "y"] }) });
      rig.start();
      await rig.untilRealtime();
      await rig.source(
        "update t set x = 'changed', y = 'changed' where id = 1; insert into t values (3, 'x3', 'y3')",
      );
      await untilSame(rig, "id");
      expect(await rig.sink("select * from t order by id")).toEqual([
        { id: 1, x: "x1" },
        { id: 2, x: "x2" },
        { id: 3, x: null },
      ]);
      await rig.stop();

      await rig.source("insert into t values (4, 'x4', 'y4'); update t set y = 'y20' where id = 2");
      rig.reconfigure({ catalog: without({}) });
      rig.start();
      await rig.untilRealtime();
      await rig.source("insert into t values (5, 'x5', 'y5')");
      await untilSame(rig, "id, x, y");
      await rig.stop();
    });
  }
});

test.each([true, false])(
  "a table that was changed under a name that is left out is warned of, and the task of the warning mends it (stopped: %p)",
  async (stopped) => {
    await using rig = await create({ source: { catalog: without({ hidden: null }) } });
    await rig.source("create table t (id int primary key); insert into t values (0), (1)");
    rig.start();
    await rig.untilRealtime();
    await rig.expectEqual();
    if (stopped) await rig.stop();
    await rig.source(`alter table t rename to hidden; insert into hidden values (2); delete from hidden where id = 0;
      alter table hidden rename to t`);
    if (stopped) rig.start();
    await waitFor("the warning", () => rig.silentChanges.includes("Table public.t: changes were made while"));
    expect(await rig.snapshot("t", rig.silentChanges.includes('"truncate":true'))).toBeNull();
    await rig.expectEqual();
    await waitFor("the warning to be over", () => rig.silentChanges === "");
    await rig.stop();
  },
);

test("a column that was changed under a name that is left out is copied again; what came before a copy is not warned of", async () => {
  await using rig = await create({
    source: { catalog: without({ t: ["hidden"], gone: null }) },
    isSupervised: true,
  });
  await rig.source(`create table t (id int primary key, a int, b int); insert into t values (1, 1, 1), (2, 2, 2);
    create table gone (id int primary key)`);
  rig.start();
  await rig.untilRealtime();
  await untilSame(rig, "id, a, b");
  const renamed = (id: number) =>
    `alter table t rename a to hidden; update t set hidden = hidden + 1 where id = 1; insert into t values (${id}, 5, 5);
     alter table t rename hidden to a`;
  await rig.source(renamed(3));
  await untilSame(rig, "id, a, b");
  await rig.stop();
  await rig.source(renamed(4));
  await rig.source("insert into gone values (1); alter table gone rename to u; insert into u values (2)");
  rig.start();
  await untilSame(rig, "id, a, b");
  await untilSame(rig, "id", "u");
  await rig.source("insert into t values (9)");
  await untilSame(rig, "id, a, b");
  expect(rig.silentChanges).toBe("");
  await rig.stop();
});

test("that changes were left out is noted for good before the stream goes on behind them", async () => {
  const kept = memorySourceState();
  const seen: unknown[] = [];
  const rows = () => rig.sink("select from other");
  await using rig = await create({
    source: { catalog: without({ hidden: null }) },
    state: {
      load: kept.load,
      save: async (record) => {
        if (record.includes("hidden")) {
          // Long enough for the row to arrive, if it did not wait.
          await waitFor("the row", async () => (await rows()).length > 0, { timeoutMs: 500 }).catch(() => {});
          seen.push(...(await rows()));
        }
        await kept.save(record);
      },
    },
  });
  await rig.source("create table t (id int primary key); create table other (id int primary key)");
  rig.start();
  await rig.untilRealtime();
  await rig.stop();
  await rig.source(
    "alter table t rename to hidden; insert into hidden values (2); alter table hidden rename to t; insert into other values (1)",
  );
  rig.start();
  await waitFor("the row", async () => (await rows()).length === 1);
  expect(seen).toEqual([]);
  expect(await kept.load()).toContain("hidden");
  await rig.stop();
});
