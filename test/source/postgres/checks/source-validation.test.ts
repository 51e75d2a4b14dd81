import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import type { PostgresSourceConfig } from "../../../../src/connector/config/source-config.ts";
import { ValidateEventSchema } from "../../../../src/connector/validation.ts";
import { readServerFacts } from "../../../../src/source/postgres/checks/source-facts.ts";
import { validatePostgresSource } from "../../../../src/source/postgres/checks/source-validation.ts";
import { fullConnection, logicalReplication, postgresSource } from "../../../support/api/connector-config.ts";
import { findTest, outline } from "../../../support/api/validation-events.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start({
    settings: { max_prepared_transactions: 5 },
    hba: ["host all reader all scram-sha-256", "host all all all trust"],
  });
});
afterAll(() => server[Symbol.asyncDispose]());

async function validate(source: PostgresSourceConfig) {
  const events = await validatePostgresSource(source, AbortSignal.timeout(30_000));
  for (const event of events) expect(Value.Check(ValidateEventSchema, event)).toBe(true);
  return events;
}

/** Creates a database and runs `sql` in it. */
async function database(name: string, sql: string): Promise<PostgresSourceConfig> {
  await server.createDatabase(name);
  await server.query(sql, name);
  return postgresSource(server.connection(name));
}

const networkTests = ["DnsResolution: Success", "Reachability: Success"];
const permissionTests = ["Permission Replication", "Permission Select", "Permission Publication"];
const configTests = [
  "wal_level",
  "Release",
  "max_replication_slots",
  "max_wal_senders",
  "Selection",
  "Publication",
  "Replica identity",
  "TOAST",
  "max_slot_wal_keep_size",
  "Open transactions",
].map((name) => `Config ${name}`);
const allTests = [
  "DnsResolution",
  "Reachability",
  "TLS",
  "Connection",
  "Authentication",
  "ServerInfo",
  ...permissionTests,
  ...configTests,
];

test("a source that is ready passes every test, in the documented order", async () => {
  const source = await database("ready", "create table t (id int primary key)");
  const events = await validate(source);
  expect(outline(events)).toEqual([
    "start",
    ...networkTests,
    "TLS: Warn",
    ...allTests.slice(3).map((name) => `${name}: Success`),
    "success",
  ]);
  expect(findTest(events, "ServerInfo").test_type.ServerInfo?.version).toMatch(/^17\./);
});

for (const major of [14, 18]) {
  test(`PostgreSQL ${major} knows every query`, async () => {
    await using other = await PostgresServer.start({ major, settings: { fsync: "off" } });
    await other.query("create table t (id int primary key, v text); create publication own for table t");
    for (const name of [null, "own"]) {
      const source = postgresSource(other.connection(), {
        replication_type: { logical_replication: logicalReplication(name) },
      });
      const events = await validate(source);
      expect(outline(events).at(-1)).toBe("success");
      expect(findTest(events, "ServerInfo").test_type.ServerInfo?.version).toStartWith(`${major}.`);
    }
  });
}

describe("after a failure the other tests are skipped with its reason", () => {
  const skippedFrom = (index: number) => allTests.slice(index).map((name) => `${name}: Skipped`);
  const at = (change: object) =>
    postgresSource(server.connection(), {
      connection: fullConnection(server.connection(), change),
    });

  test("a name that does not resolve", async () => {
    expect(outline(await validate(at({ host: "nowhere.invalid" })))).toEqual([
      "start",
      "DnsResolution: Failed",
      ...skippedFrom(1),
      "failed: The host name does not resolve.",
    ]);
  });

  test("a port where nothing listens", async () => {
    const events = outline(await validate(at({ port: 1 })));
    expect(events.slice(0, -1)).toEqual([
      "start",
      "DnsResolution: Success",
      "Reachability: Failed",
      ...skippedFrom(2),
    ]);
  });

  test("TLS that the server does not support", async () => {
    const events = outline(await validate(at({ ssl_mode: "Require" })));
    expect(events.slice(0, -1)).toEqual(["start", ...networkTests, "TLS: Failed", ...skippedFrom(3)]);
  });

  test("a missing database", async () => {
    const events = outline(await validate(at({ database: "nowhere", ssl_mode: "Disable" })));
    expect(events.slice(0, -1)).toEqual([
      "start",
      ...networkTests,
      "TLS: Skipped",
      "Connection: Failed",
      ...skippedFrom(4),
    ]);
  });

  test("a wrong password", async () => {
    await server.query("create role reader login password 'right'");
    const events = await validate(at({ user: "reader", password: "wrong-secret" }));
    expect(outline(events).slice(0, -1)).toEqual([
      "start",
      ...networkTests,
      "TLS: Skipped",
      "Connection: Success",
      "Authentication: Failed",
      ...skippedFrom(5),
    ]);
    expect(JSON.stringify(events)).not.toContain("wrong-secret");
  });
});

test("missing privileges are reported one after the other, each with the SQL that grants it", async () => {
  const source = await database(
    "guarded",
    `create schema "Odd ""schema"; create table "Odd ""schema"."T'able" (id int primary key);
     create role "Weak ""one" login; create role weak login`,
  );
  const role = { connection: fullConnection(server.connection("guarded"), { user: 'Weak "one' }) };
  const failing = async (name: string) => {
    const events = await validate({ ...source, ...role });
    expect(outline(events)).toContain(`${name}: Failed`);
    return findTest(events, name).commands ?? [];
  };
  const replication = await failing("Permission Replication");
  expect(replication).toEqual(['ALTER ROLE "Weak ""one" REPLICATION;']);
  await server.query(replication.join("\n"), "guarded");

  const select = await failing("Permission Select");
  expect(select).toEqual([
    'GRANT USAGE ON SCHEMA "Odd ""schema" TO "Weak ""one";',
    `GRANT SELECT ON TABLE "Odd ""schema"."T'able" TO "Weak ""one";`,
  ]);
  await server.query(select.join("\n"), "guarded");

  const unowned = findTest(await validate({ ...source, ...role }), "Permission Publication");
  expect(unowned.status.Failed?.reason).toContain("or exclude it in source.postgres");
  const publication = await failing("Permission Publication");
  expect(publication.at(-1)).toBe(`CREATE PUBLICATION "millrace" FOR TABLE "Odd ""schema"."T'able";`);
  const viaRoot = await validate({ ...source, ...role, partitions_as_root: true });
  expect(findTest(viaRoot, "Permission Publication").commands?.at(-1)).toEndWith(
    "WITH (publish_via_partition_root = true);",
  );
  await server.query(publication.join("\n"), "guarded");

  const named = { replication_type: { logical_replication: logicalReplication("millrace") } };
  expect(outline(await validate({ ...source, ...role, ...named })).at(-1)).toBe("success");
});

test("wal_level other than logical fails", async () => {
  await using replica = await PostgresServer.start({ settings: { wal_level: "replica" } });
  const events = await validate(postgresSource(replica.connection()));
  expect(findTest(events, "Config wal_level").commands).toEqual(["ALTER SYSTEM SET wal_level = 'logical';"]);
  // Copies alone need no WAL, and only the privilege to read the tables.
  await replica.query(
    "create table t (v text); create role reader login password 'r'; grant select on t to reader",
  );
  const copied = postgresSource(
    { ...replica.connection(), user: "reader", password: "r" },
    { replication_type: { snapshot: {} } },
  );
  const copiesOnly = await validate(copied);
  expect(outline(copiesOnly).at(-1)).toBe("success");
  expect(findTest(copiesOnly, "Permission Select").status.Success).toBeDefined();
  expect(findTest(copiesOnly, "Permission Replication").status.Skipped?.reason).toContain(
    "nothing is streamed",
  );
});

test("no free slot fails", async () => {
  await using small = await PostgresServer.start({ settings: { max_replication_slots: 1 } });
  await small.query("select pg_create_logical_replication_slot('taken', 'pgoutput')");
  const events = await validate(postgresSource(small.connection()));
  expect(findTest(events, "Config max_replication_slots").status.Failed).toBeDefined();
});

describe("a named publication", () => {
  const named = (source: PostgresSourceConfig, name: string): PostgresSourceConfig => ({
    ...source,
    replication_type: { logical_replication: logicalReplication(name) },
  });

  test("must exist, publish everything, and contain every selected table", async () => {
    const source = named(
      await database("published", "create table a (id int primary key); create table b (id int primary key)"),
      "Shop's",
    );
    const expectCommands = async (expected: string[]) => {
      const { commands } = findTest(await validate(source), "Config Publication");
      expect(commands).toEqual(expected);
      await server.query(expected.join("\n"), "published");
    };
    await expectCommands([`CREATE PUBLICATION "Shop's" FOR TABLE "public"."a", "public"."b";`]);
    expect(outline(await validate(source)).at(-1)).toBe("success");

    await server.query(
      `alter publication "Shop's" set table a; alter publication "Shop's" set (publish = 'insert')`,
      "published",
    );
    await expectCommands([`ALTER PUBLICATION "Shop's" SET (publish = 'insert, update, delete, truncate');`]);
    // It must contain the tables that the catalog lists. Tables selected by default are left out, as a run does it.
    const lacking = await validate(source);
    expect(findTest(lacking, "Config Publication")).toMatchObject({
      message: expect.stringContaining("untick it"),
    });
    expect(outline(lacking).at(-1)).toBe("success");
    const whole = { columns: [], history_enabled: false, action: "Include" as const };
    const schemas = [{ name: "public", action: "Include" as const, tables: [{ name: "b", ...whole }] }];
    const naming = await validate({ ...source, catalog: { ...source.catalog, schemas } });
    expect(findTest(naming, "Config Publication").status.Failed).toBeDefined();
    await expectCommands([`ALTER PUBLICATION "Shop's" ADD TABLE "public"."b";`]);
    expect(outline(await validate(source)).at(-1)).toBe("success");
  });

  test("must publish partitions as the source is configured", async () => {
    const source = await database(
      "parted",
      `create table p (i int primary key) partition by list (i); create table p1 partition of p for values in (1);
       create publication leaves for table p`,
    );
    expect(outline(await validate(named(source, "leaves"))).at(-1)).toBe("success");
    const root = { ...named(source, "leaves"), partitions_as_root: true };
    expect(findTest(await validate(root), "Config Publication").commands).toEqual([
      'ALTER PUBLICATION "leaves" SET (publish_via_partition_root = true);',
    ]);
  });
});

test("tables without identity and tables with large values cause warnings, with the SQL", async () => {
  const source = await database(
    "identities",
    `create table keyed (id int primary key); create table bare (i int); alter table bare replica identity nothing;
     create table large (id int primary key, body text); create table whole (body text);
     alter table whole replica identity full`,
  );
  const events = await validate(source);
  expect(findTest(events, "Config Replica identity").commands).toEqual([
    'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL;',
  ]);
  expect(findTest(events, "Config TOAST").commands).toEqual([
    'ALTER TABLE "public"."large" REPLICA IDENTITY FULL;',
  ]);
  expect(outline(events).at(-1)).toBe("success");
});

test("the identity of a root is that of its leaves, as Postgres does not pass it on", async () => {
  const made = await database(
    "rooted",
    `create table p (id int primary key, body text) partition by range (id);
     create table p1 partition of p for values from (0) to (9);
     create table p2 partition of p for values from (9) to (20) partition by range (id);
     create table p3 partition of p2 for values from (9) to (15)`,
  );
  const source = { ...made, partitions_as_root: true };
  await server.query("alter table p replica identity full", "rooted");
  const { commands = [] } = findTest(await validate(source), "Config TOAST");
  expect(commands).toEqual([
    'ALTER TABLE "public"."p1" REPLICA IDENTITY FULL;',
    'ALTER TABLE "public"."p3" REPLICA IDENTITY FULL;',
  ]);
  await server.query(commands.join("\n"), "rooted");
  expect(findTest(await validate(source), "Config TOAST").status.Success).toBeDefined();
  await server.query("alter table p1 replica identity nothing", "rooted");
  for (const partitions_as_root of [true, false])
    expect(
      findTest(await validate({ ...made, partitions_as_root }), "Config Replica identity").commands,
    ).toEqual(['ALTER TABLE "public"."p1" REPLICA IDENTITY FULL;']);
});

test("only selected tables count, and a missing selected table fails", async () => {
  const source = await database(
    "chosen",
    "create table keyed (id int primary key); create table bare (i int)",
  );
  const table = (name: string) => ({ name, action: "Include" as const, columns: [], history_enabled: false });
  const catalog = (...names: string[]) => ({
    name: "chosen",
    default_action: "Exclude" as const,
    schemas: [{ name: "public", action: "Include" as const, tables: names.map(table) }],
  });
  const chosen = await validate({ ...source, catalog: catalog("keyed") });
  expect(findTest(chosen, "Config Replica identity").status.Success).toBeDefined();
  expect(outline(await validate({ ...source, catalog: catalog("keyed", "gone") })).at(-1)).toBe(
    "failed: The source has no table public.gone.",
  );
});

describe("a catalog that does not match the tables", () => {
  const catalog = (columns: { name: string; action: "Include" | "Exclude"; hash?: object }[]) => ({
    name: "db",
    default_action: "Include" as const,
    column_hashing: { algorithm: "Sha256" as const, salt: "s" },
    schemas: [
      {
        name: "public",
        action: "Include" as const,
        tables: [{ name: "t", action: "Include" as const, history_enabled: false, columns }],
      },
    ],
  });

  test("excludes key columns, or names unknown columns", async () => {
    const source = await database(
      "misfit",
      `create table t (id int, code text not null, mail text, primary key (id) include (mail), unique (code) include (mail));
       alter table t replica identity using index t_code_mail_key`,
    );
    for (const name of ["id", "code"]) {
      const events = await validate({ ...source, catalog: catalog([{ name, action: "Exclude" }]) });
      expect(findTest(events, "Config Selection").status.Failed?.reason).toContain(`public.t.${name}`);
    }
    const misspelt = await validate({
      ...source,
      catalog: catalog([
        { name: "emial", action: "Include", hash: {} },
        { name: "mail", action: "Exclude" },
      ]),
    });
    expect(findTest(misspelt, "Config Selection").message).toBe(
      "The catalog excludes or hashes columns that the source does not have: public.t.emial.",
    );
    expect(outline(misspelt).at(-1)).toBe("success");
    const listed = findTest(misspelt, "Config Publication");
    expect(listed.message).toContain("public.t. While they are published, Postgres refuses DROP COLUMN");
    expect(listed.commands).toEqual(['ALTER PUBLICATION "millrace_<id>" DROP TABLE "public"."t";']);
  });

  test("a column with the row hash's name, in a table that needs a row hash", async () => {
    const source = await database("hashed", "create table t (v int, _sm_row_hash text)");
    expect(outline(await validate(source)).at(-1)).toBe("success");
    const byHash = { ...source, keyless_table_strategy: { dedup_by_row_hash: {} } };
    expect(outline(await validate(byHash)).at(-1)).toContain("public.t");
  });

  test("a publication with a column list or a row filter is compared with the selection", async () => {
    const made = await database(
      "listed",
      `create table t (id int primary key, "o,dd" text, secret text); create publication own for table t (id) where (id > 5)`,
    );
    const source = {
      ...made,
      replication_type: { logical_replication: logicalReplication("own") },
      catalog: catalog([{ name: "secret", action: "Exclude" }]),
    };
    const { commands = [] } = findTest(await validate(source), "Config Publication");
    expect(commands).toEqual([
      'ALTER PUBLICATION "own" DROP TABLE "public"."t";',
      'ALTER PUBLICATION "own" ADD TABLE "public"."t" ("id", "o,dd");',
    ]);
    await server.query(commands.join("\n"), "listed");
    expect(outline(await validate(source)).at(-1)).toBe("success");
  });
});

test("a deferrable key does not identify rows", async () => {
  const source = await database("deferred", "create table t (id int primary key deferrable, v int)");
  expect(findTest(await validate(source), "Config Replica identity").commands).toEqual([
    'ALTER TABLE "public"."t" REPLICA IDENTITY FULL;',
  ]);
});

test("a role with minimal privileges passes, with a warning about transactions that it cannot see", async () => {
  const source = await database(
    "least",
    `create table t (id int primary key); create role least login replication; grant select on t to least;
     create publication shop for table t`,
  );
  const least = {
    ...source,
    connection: fullConnection(server.connection("least"), { user: "least" }),
    replication_type: { logical_replication: logicalReplication("shop") },
  };
  const quiet = await validate(least);
  expect(outline(quiet).at(-1)).toBe("success");
  expect(findTest(quiet, "Config Open transactions").status.Success).toBeDefined();
  await using writing = await server.connect("least");
  await writing.query("begin; insert into t values (1)");
  const warning = findTest(await validate(least), "Config Open transactions");
  expect(warning.status.Warn).toBeDefined();
  expect(warning.commands).toEqual(['GRANT pg_read_all_stats TO "least";']);
  await server.query("grant pg_read_all_stats to least");
  expect(findTest(await validate(least), "Config Open transactions").status.Success).toBeDefined();
});

test("WAL that may be removed causes a warning", async () => {
  const settings = { max_slot_wal_keep_size: "1GB", idle_replication_slot_timeout: "1h" };
  await using limited = await PostgresServer.start({ major: 18, settings });
  const events = await validate(postgresSource(limited.connection()));
  const { message } = findTest(events, "Config max_slot_wal_keep_size");
  expect(message).toContain("max_slot_wal_keep_size (1GB)");
  expect(message).toContain("idle_replication_slot_timeout (1h)");
});

test("transactions that hold back a slot are found: open and prepared ones that wrote", async () => {
  const source = await database("busy", "create table t (id int primary key)");
  await using reading = await server.connect("busy");
  await reading.query("begin; select * from t");
  await using writing = await server.connect("busy");
  await writing.query("begin; insert into t values (2)");
  await server.query("begin; insert into t values (1); prepare transaction 'held''back'", "busy");
  await using client = await server.connect("busy");
  const { longTransactions } = await readServerFacts(client, 0);
  expect(longTransactions.map((open) => open.gid)).toEqual(expect.arrayContaining([null, "held'back"]));
  expect(longTransactions.find((open) => open.pid !== null)?.query).toContain("insert into t values (2)");
  expect(longTransactions).toHaveLength(2);
  expect(findTest(await validate(source), "Config Open transactions").status.Success).toBeDefined();
  await server.query("rollback prepared 'held''back'", "busy");
});

test("the signal aborts it", async () => {
  const source = await database("stopped", "create table t (id int primary key)");
  const controller = new AbortController();
  const pending = validatePostgresSource(source, controller.signal);
  controller.abort(new Error("enough"));
  expect(pending).rejects.toThrow("enough");
  await pending.catch(() => {});
  await waitFor("no connection is left", async () => {
    const rows = await server.query(
      "select 1 from pg_stat_activity where application_name = 'millrace validation'",
    );
    return rows.length === 0;
  });
});
