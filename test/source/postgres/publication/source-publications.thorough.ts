// Publications that others alter, drop or own, and roles with few privileges.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Catalog } from "../../../../src/connector/config/catalog.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { PostgresSource } from "../../../../src/source/postgres/postgres-source.ts";
import { dropPostgresObjects } from "../../../../src/source/postgres/source-objects.ts";
import { fullConnection, logicalReplication, postgresSource } from "../../../support/api/connector-config.ts";
import { PipelineRig, type RigOptions } from "../../../support/pipeline/pipeline-rig.ts";
import { emptySourceState } from "../../../support/pipeline/source-state.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rigOf = (options: RigOptions = {}) => PipelineRig.create(server, `pub${++count}`, options);

async function streaming(options: RigOptions = {}, more = "select 1"): Promise<PipelineRig> {
  const rig = await rigOf(options);
  await rig.source(
    `create table t (id int primary key); create table u (id int primary key); insert into t values (1); insert into u values (1); ${more}`,
  );
  rig.start();
  await rig.expectEqual();
  return rig;
}

/** The run does not look at the tables by itself. */
const seldom: RigOptions = { pace: { tableCheckMs: 600_000 } };

async function failure(rig: PipelineRig): Promise<MillraceError> {
  rig.start();
  return (await rig.ended()) as MillraceError;
}

const warnings = (rig: PipelineRig) =>
  rig.phases.flatMap(({ health }) => (health.kind === "warning" ? [health.reason] : []));

const tampering = (rig: PipelineRig) =>
  rig.source(`alter publication ${rig.slot} drop table t; insert into t values (2); delete from t where id = 1;
    insert into u values (2)`);

const narrowedFor = (publication: string, sql: string) =>
  `alter publication ${publication} set (publish = 'insert'); ${sql};
    alter publication ${publication} set (publish = 'insert, update, delete, truncate')`;

describe("the connector's own publication", () => {
  test("from which somebody drops a table while it streams: the table is added again and copied again", async () => {
    await using rig = await streaming();
    await tampering(rig);
    await rig.expectEqual();
    expect(warnings(rig)[0]).toContain("Somebody took public.t out of publication");
    await rig.source("insert into t values (3)");
    await rig.expectEqual();
    await rig.stop();
    expect(warnings(rig).filter((reason) => reason.includes("public.u"))).toEqual([]);
  });

  test("from which somebody drops a table while it is stopped, and adds it again", async () => {
    await using rig = await streaming();
    await rig.stop();
    await tampering(rig);
    await rig.source(`alter publication ${rig.slot} add table t`);
    rig.start();
    await rig.expectEqual();
    await rig.stop();
    // The next run does not report what was handled.
    const before = warnings(rig).length;
    rig.start();
    await rig.untilRealtime();
    await rig.stop();
    expect(warnings(rig)).toHaveLength(before);
  });

  test.each([
    [
      "altered",
      (name: string) => `alter publication ${name} set (publish = 'insert')`,
      "publication_mismatch",
    ],
    ["dropped", (name: string) => `drop publication ${name}`, "publication_missing"],
    [
      "dropped and made anew",
      (name: string) => `drop publication ${name}; create publication ${name} for table t, u`,
      "publication_missing",
    ],
  ])("that somebody has %s stops the run, while it streams and at its start", async (_, sql, code) => {
    await using rig = await streaming();
    await rig.source(sql(rig.slot));
    await rig.source("create table unpublished (id int)");
    const whileStreaming = (await rig.ended()) as MillraceError;
    const atStart = await failure(rig);
    for (const error of [whileStreaming, atStart]) {
      expect(error.code).toBe(code as MillraceError["code"]);
      expect(error.message).toContain("ReInitialize");
    }
  });

  test.each([
    ["narrowed", (name: string) => `alter publication ${name} set (publish = 'insert')`],
    ["dropped", (name: string) => `drop publication ${name}`],
  ])("that somebody has %s stops the run, though a task meets it first", async (_, sql) => {
    await using rig = await streaming(seldom);
    await rig.source(sql(rig.slot));
    const failed = (await rig.snapshot("t", false)) as MillraceError;
    expect(failed.message).toContain("ReInitialize");
    expect(((await rig.ended()) as MillraceError).code).toBe(failed.code);
  });

  test("that is narrowed and widened again while the connector is stopped: its tables are copied again", async () => {
    await using rig = await streaming();
    await rig.stop();
    await rig.source(narrowedFor(rig.slot, "update t set id = 5"));
    rig.start();
    await rig.expectEqual();
    expect(warnings(rig).at(-1)).toContain(`${rig.slot}$append was altered, or may have been: public.t`);
    await rig.stop();
    // The next run reports nothing of that.
    const before = warnings(rig).length;
    rig.start();
    await rig.untilRealtime();
    await rig.stop();
    expect(warnings(rig)).toHaveLength(before);
  });

  test("is not touched by another connector on the same database, nor by its deletion", async () => {
    await using rig = await streaming();
    const config = postgresSource(server.connection(rig.sourceDatabase));
    await using other = await PipelineRig.create(server, `pub${++count}`, {
      source: { connection: config.connection },
    });
    other.start();
    await other.untilRealtime();
    await rig.source("insert into t values (2)");
    await rig.expectEqual();
    await waitFor("the other's row", async () => (await other.sink("select from t")).length === 2);
    await other.stop();
    await dropPostgresObjects(config, other.slot, AbortSignal.timeout(10_000));
    await rig.source("insert into t values (3)");
    await rig.expectEqual();
    expect(warnings(rig)).toEqual([]);
    await rig.stop();
  });
});

describe("a publication that the user owns", () => {
  const catalog: Catalog = {
    name: "x",
    default_action: "Exclude",
    schemas: [
      {
        name: "public",
        action: "Include",
        tables: ["t", "u"].map((name) => ({ name, action: "Include", columns: [], history_enabled: false })),
      },
    ],
  };
  const named = {
    source: { catalog, replication_type: { logical_replication: logicalReplication("shop") } },
  };
  const facts = (rig: PipelineRig) =>
    rig.source(
      "select p.oid, p.*, r.oid as member from pg_publication p join pg_publication_rel r on r.prpubid = p.oid",
    );

  test("is neither altered nor dropped", async () => {
    await using rig = await streaming(
      named,
      "create publication shop for table t, u with (publish = 'insert, update, delete')",
    );
    const before = await facts(rig);
    await rig.source("insert into t values (2)");
    await rig.expectEqual();
    await rig.stop();
    rig.initialized = false;
    rig.start();
    await rig.expectEqual();
    await rig.stop();
    const config = postgresSource(server.connection(rig.sourceDatabase), named.source);
    await dropPostgresObjects(config, rig.slot, AbortSignal.timeout(10_000));
    expect(await facts(rig)).toEqual(before);
    expect(warnings(rig)[0]).toContain("leaves out truncate");
    // The publication that the service had created before goes with the connector.
    const own = [rig.slot, `${rig.slot}$append`];
    for (const name of own) await rig.source(`create publication "${name}"`);
    await dropPostgresObjects(config, rig.slot, AbortSignal.timeout(10_000));
    expect(await facts(rig)).toEqual(before);
    const left = await rig.source<{ name: string }>("select pubname as name from pg_publication order by 1");
    expect(left.map(({ name }) => name)).toEqual(["shop"]);
  });

  test("that loses a table while it streams stops the run; with the table back, it is copied again", async () => {
    await using rig = await streaming(named, "create publication shop for table t, u");
    await rig.source("alter publication shop drop table t; insert into t values (2)");
    const error = (await rig.ended()) as MillraceError;
    expect(error.code).toBe("publication_mismatch");
    const [sql] = error.message.match(/ALTER PUBLICATION .*;/) ?? [];
    await rig.source(sql ?? "");
    rig.start();
    await rig.expectEqual();
    await rig.stop();
  });

  test.each([
    ["filters the rows of a table", "alter publication shop set table t where (id < 5), table u"],
    ["is dropped", "drop publication shop"],
  ])("that %s stops the run, though a task meets it first", async (_, sql) => {
    await using rig = await streaming({ ...named, ...seldom }, "create publication shop for table t, u");
    await rig.source(sql);
    const failed = (await rig.snapshot("u", false)) as MillraceError;
    expect(failed.code).toStartWith("publication_");
    expect(((await rig.ended()) as MillraceError).code).toBe(failed.code);
  });

  test("that is narrowed and widened again, while the connector is stopped or runs: copied again", async () => {
    await using rig = await streaming(named, "create publication shop for table t, u");
    await rig.stop();
    await rig.source(narrowedFor("shop", "update t set id = 5"));
    rig.start();
    await rig.expectEqual();
    await rig.source(narrowedFor("shop", "update u set id = 6"));
    await rig.expectEqual();
    await rig.stop();
  });

  test("whose table somebody locks blocks no other table: a warning names who, and the table is read again", async () => {
    await using rig = await streaming(
      { source: { replication_type: { logical_replication: logicalReplication("shop") } } },
      "create publication shop for all tables",
    );
    await using other = await server.connect(rig.sourceDatabase);
    await other.query("begin; lock table t in access exclusive mode");
    await rig.source("create table v (id int primary key); insert into v values (1)");
    await waitFor("the warning", () =>
      warnings(rig).some((reason) => reason.includes("Table public.t is locked")),
    );
    const [holder] = (await other.query("select pg_backend_pid() as pid")).rows;
    expect(warnings(rig).at(-1)).toContain(`pg_terminate_backend(${holder.pid})`);
    await rig.source("insert into u values (2)");
    await waitFor("u", async () => (await rig.sink("select from u where id = 2")).length === 1);
    await other.query("commit");
    await rig.expectEqual();
    await waitFor("no warning", () => rig.phases.at(-1)?.health.kind !== "warning");
    await rig.stop();
    await other.query("begin; lock table t in access exclusive mode");
    const error = await failure(rig);
    expect([error.code, error.retry]).toEqual(["table_unreadable", "transient"]);
    expect(error.message).toContain("Table public.t is locked");
  });

  test("for all tables: a table that was unlogged for a while is copied again, and one that VACUUM FULL rewrote is not", async () => {
    await using rig = await streaming(
      { source: { replication_type: { logical_replication: logicalReplication("shop") } } },
      `create table large (id int primary key, v text); insert into large values (1, 'a');
        create table vacuumed (id int primary key, v text); create publication shop for all tables`,
    );
    const unloggedFor = (table: string, sql: string) =>
      `alter table ${table} set unlogged; ${sql}; alter table ${table} set logged`;
    await rig.stop();
    await rig.source(unloggedFor("t", "update t set id = 5; insert into t values (6)"));
    await rig.source("vacuum full vacuumed");
    rig.start();
    await rig.expectEqual();
    await rig.source(unloggedFor("large", "update large set v = 'b'"));
    await rig.expectEqual();
    await rig.source("alter table u set unlogged; insert into u values (7)");
    await waitFor("the read", async () => warnings(rig).length > 0);
    await rig.stop();
    rig.start();
    await rig.untilRealtime();
    await rig.source("alter table u set logged");
    await rig.expectEqual();
    await rig.stop();
    expect(warnings(rig).join()).toMatch(/public\.t got other files.*public\.large got/s);
    expect(warnings(rig).join()).not.toContain("vacuumed");
  });

  test("for all tables: what was known of a table that is gone is forgotten, and a table that comes back is copied again", async () => {
    let record = "{}";
    const state = {
      load: async () => record,
      save: async (text: string) => {
        record = text;
      },
    };
    await using rig = await streaming(
      { state, source: { replication_type: { logical_replication: logicalReplication("shop") } } },
      "create publication shop for all tables",
    );
    const known = () => Object.keys(JSON.parse(record)).filter((key) => key.startsWith("published "));
    const [t] = await rig.source<{ id: string }>("select 't'::regclass::oid::text as id");
    await waitFor("both tables", () => known().length === 2);
    await rig.source("drop table u");
    await waitFor("one table", () => known().length === 1);
    expect(known()).toEqual([`published ${t?.id}`]);
    await rig.source("alter table t set unlogged; insert into t values (2); delete from t where id = 1");
    await waitFor("no table", () => known().length === 0);
    await rig.source("alter table t set logged");
    await waitFor("the table", () => known().length === 1);
    await rig.expectEqual();
    await rig.stop();
  });

  test("for complete schemas or for all tables works as well", async () => {
    await using rig = await streaming(
      { source: { replication_type: { logical_replication: logicalReplication("shop") } } },
      "create publication shop for all tables",
    );
    await rig.source("create table later (id int primary key); insert into later values (1)");
    await rig.expectEqual();
    expect(warnings(rig)).toEqual([]);
    // The server opens all tables to list the published ones, and fails when one of them is dropped.
    await using dropping = await server.connect(rig.sourceDatabase);
    await dropping.query("begin; drop table t");
    await rig.source("create table last (id int primary key); insert into last values (1)");
    await waitFor("the read to wait for the table", async () => {
      const waiting = await rig.source(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      return waiting.length === 1;
    });
    await dropping.query("commit");
    await rig.expectEqual();
    await rig.stop();
  });

  test("for a schema: a table that left it for a while is copied again", async () => {
    await using rig = await streaming(
      { source: { replication_type: { logical_replication: logicalReplication("shop") } } },
      "create schema o; create table bare (v int); create publication shop for tables in schema public",
    );
    await rig.source(
      `alter table t set schema o; insert into o.t values (8); alter table o.t set schema public;
       alter table bare set schema o; insert into o.bare values (8); alter table o.bare set schema public`,
    );
    await rig.expectEqual();
    await rig.stop();
    expect(warnings(rig).at(-1)).toContain("Somebody took public.bare, public.t out of publication shop");
  });
});

test("a table that is altered between two queries of a read is read again", async () => {
  const database = `pub${++count}`;
  await server.createDatabase(database);
  await server.query(
    "create table t (id int primary key, v text); create publication every for all tables",
    database,
  );
  const named = { replication_type: { logical_replication: logicalReplication("every") } };
  await using source = new PostgresSource(postgresSource(server.connection(database), named), "unused", 0, {
    signal: AbortSignal.timeout(60_000),
    state: await emptySourceState(),
    events: { warning: () => {} },
    sinkFollowsShapes: true,
  });
  await using other = await server.connect(database);
  // The table's columns are known by then, but not yet whether they are published.
  await other.query("begin; alter table t rename v to w; lock table pg_publication in access exclusive mode");
  const reading = source.tables();
  await waitFor("the read to wait", async () => {
    const waiting = await server.query(
      "select from pg_locks where relation = 'pg_publication'::regclass and not granted",
      database,
    );
    return waiting.length === 1;
  });
  await other.query("commit");
  const [table] = await reading;
  expect(table?.relation.columns.map(({ name }) => name)).toEqual(["id", "w"]);
});

describe("a role with few privileges", () => {
  const retryPace = { againMs: 100, mostMs: 400, changedAgainMs: 50 };

  /** A connector with the source role `user`. `sql` runs as the administrator. */
  async function as(
    user: string,
    sql: string,
    publication: string | null = null,
    options: RigOptions = {},
  ): Promise<PipelineRig> {
    const name = `pub${++count}`;
    const rig = await PipelineRig.create(server, name, {
      source: {
        connection: fullConnection(server.connection(`${name}_source`), { user }),
        replication_type: { logical_replication: logicalReplication(publication) },
      },
      retryPace,
      ...options,
    });
    await rig.source(`create table t (id int primary key); insert into t values (1); ${sql}`);
    return rig;
  }

  /** The command in the reason why a table is set aside. */
  async function commandFor(rig: PipelineRig, pattern: RegExp): Promise<string> {
    const reason = await waitFor("the table that it may not read", () => rig.setAside[0]?.reason);
    return pattern.exec(reason)?.[0] ?? "";
  }

  const sqlIn = (error: MillraceError, pattern: RegExp) => (error.message.match(pattern) ?? [""])[0];

  test("gets the missing privileges reported step by step, and with only those its connector runs on the owner's publication", async () => {
    await server.query("create role owner; create role reader login");
    await using rig = await as("reader", "alter table t owner to owner");
    const notOwner = await failure(rig);
    expect(notOwner.code).toBe("source_permission_denied");
    expect(notOwner.message).toContain("(owner)");
    expect(notOwner.message).toContain("or exclude it in source.postgres");
    await rig.source(sqlIn(notOwner, /CREATE PUBLICATION .*;/));
    await using onOwners = await PipelineRig.create(server, `pub${++count}`, {
      source: {
        connection: fullConnection(server.connection(rig.sourceDatabase), { user: "reader" }),
        replication_type: { logical_replication: logicalReplication("millrace") },
      },
      retryPace,
    });
    const noReplication = await failure(onOwners);
    expect(noReplication.code).toBe("source_permission_denied");
    await server.query(sqlIn(noReplication, /ALTER ROLE .*? REPLICATION;/));
    onOwners.start();
    await rig.source(await commandFor(onOwners, /GRANT USAGE .*;/));
    await waitFor("the row", async () => (await onOwners.sink("select from t")).length === 1);
    await rig.source("insert into t values (2)");
    await waitFor("the change", async () => (await onOwners.sink("select from t")).length === 2);
    await onOwners.stop();
  });

  test("the README's role is sufficient, and so is its role at the sink", async () => {
    const name = `pub${++count}`;
    const databases = { source: `${name}_source`, sink: `${name}_sink` };
    const as = (database: string, user: string) => fullConnection(server.connection(database), { user });
    await using rig = await PipelineRig.create(server, name, {
      source: {
        connection: as(databases.source, "millrace"),
        replication_type: { logical_replication: logicalReplication("millrace") },
      },
      sink: { connection: as(databases.sink, "applier") },
    });
    const page = (name: string) => Bun.file(join(import.meta.dir, "..", "..", "..", "..", name)).text();
    const [, sql = ""] = /```sql\n-- .*?\n(CREATE ROLE.*?)```/s.exec(await page("README.md")) ?? [];
    expect(await page("docs/connectors.md")).toContain(sql);
    await rig.source(
      "create table orders (id int primary key, v text); create table customers (id int primary key)",
    );
    await rig.source(`${sql}; insert into orders values (1, 'a'); insert into customers values (1)`);
    await rig.sink(`create role applier login; grant create, temporary on database ${databases.sink} to applier;
      grant create on schema public to applier`);
    rig.start();
    await rig.expectEqual();
    await rig.source("update orders set v = 'b'; delete from customers; insert into orders values (2, 'c')");
    await rig.expectEqual();
    await rig.stop();
  });

  test("that owns the tables needs CREATE on the database", async () => {
    await server.query("create role maker login replication");
    await using rig = await as("maker", "alter table t owner to maker");
    const error = await failure(rig);
    expect(error.code).toBe("source_permission_denied");
    expect(error.message).not.toContain("publication_name");
    await rig.source(sqlIn(error, /GRANT CREATE .*;/));
    rig.start();
    await rig.expectEqual();
    await rig.stop();
  });

  test("is warned if row-level security hides rows from it", async () => {
    await server.query("create role hidden login replication");
    await using rig = await as(
      "hidden",
      "grant select on t to hidden; alter table t enable row level security; create publication pub for table t",
      "pub",
    );
    rig.start();
    await rig.source(await commandFor(rig, /ALTER ROLE .*;/));
    await rig.expectEqual();
    await rig.stop();
  });
});
