// This build opens a state of each earlier version with all its content, and refuses one of a later build.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { drizzle as drizzlePostgres } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import { slotName } from "../../src/connector/connector-id.ts";
import { DurableNodeFs, durableStartParameters } from "../../src/state/embedded/durable-node-fs.ts";
import { unpackPrepared } from "../../src/state/embedded/prepared-archive.ts";
import { latestMigration, migrate, migrations } from "../../src/state/migrations.ts";
import type { StateOptions } from "../../src/state/open-database.ts";
import { openState } from "../../src/state/open-state.ts";
import * as schema from "../../src/state/schema.ts";
import { Cipher } from "../../src/state/secrets/encryption.ts";
import { parseEncryptionKey } from "../../src/state/secrets/encryption-key.ts";
import { sampleConfig, storedConnector } from "../support/api/sample-connector.ts";
import { pick } from "../support/matrix.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";

const encryptionKey = Buffer.alloc(32, 9).toString("base64");
const id = "shop";
const runId = Bun.randomUUIDv7();
const instance = crypto.randomUUID();
const config = sampleConfig(id);

let server: PostgresServer;
let directory: string;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** What the first version could contain, in its columns, and what later versions added. */
function contents(version: number): string {
  const cipher = new Cipher(parseEncryptionKey(encryptionKey, "the key"));
  const sealed = cipher.seal(JSON.stringify(config), `connector ${id}`);
  const status = JSON.stringify({ state: "Running", phase: { realtime: {} }, health: { healthy: {} } });
  const spec = JSON.stringify({ Snapshot: { database: "shop", schema: "public", name: "orders" } });
  const task = (state: string, key: string) =>
    `insert into millrace.tasks (id, connector_id, state, spec, spec_key, attempt, rows, bytes, estimated_rows, created_at)
     values (gen_random_uuid(), '${id}', '${state}', '${spec}', '${key}', 1, 9007199254740991, 5, 7, now())`;
  const later = [
    `insert into millrace.source_records values ('${id}', 'of the source')`,
    "update millrace.connectors set round_begun_at = '2026-01-02T03:04:05.678Z'",
    `insert into millrace.sink_record_parts values ('${id}', 'a', 'part of it')`,
  ];
  return [
    `insert into millrace.connectors (id, slot_name, sealed_config, stopped, initialized, run_id, created_at)
     values ('${id}', '${slotName(id)}', '${sealed}', true, true, '${runId}', '2026-01-01T00:00:00.001Z')`,
    `insert into millrace.settings values ('encryption_key_check', '${cipher.seal("millrace", "the state")}')`,
    `insert into millrace.status_history (id, connector_id, run_id, component, status, created_at)
     select gen_random_uuid(), '${id}', '${runId}', 'Pipeline', '${status}', now() from generate_series(1, 3)`,
    `insert into millrace.sink_records values ('${id}', 'of the sink')`,
    ...[task("Running", "one"), task("Done", "two")],
    ...later.slice(0, version - 1),
  ].join(";\n");
}

const versions = migrations().map((_, index) => index + 1);

async function expectContents(options: StateOptions, version: number): Promise<void> {
  await using state = await openState(options);
  const [connector] = await state.connectors.list();
  expect(connector).toMatchObject({
    // It was stored in full form; what nobody gave is not made up.
    id,
    config,
    given: storedConnector(id).given,
    runId,
    stopped: true,
    initialized: true,
    deletion: null,
  });
  expect(connector?.createdAt.toISOString()).toBe("2026-01-01T00:00:00.001Z");
  expect(connector?.roundBegunAt?.toISOString()).toBe(version >= 3 ? "2026-01-02T03:04:05.678Z" : undefined);
  expect(await state.sinkRecords.load(id)).toEqual({
    text: "of the sink",
    parts: new Map(version >= 4 ? [["a", "part of it"]] : []),
  });
  expect((await state.sourceRecords.load(id))?.text).toBe(version >= 2 ? "of the source" : undefined);
  // Whoever ran a task is gone.
  await state.tasks.releaseAllRunning();
  const tasks = await state.tasks.list(id);
  expect(tasks.map(({ state, progress }) => [state, progress?.rows])).toEqual([
    ["Done", 9007199254740991],
    ["Pending", 9007199254740991],
  ]);
  expect(await state.history.list(id)).toHaveLength(3);
  // The columns of the newest version can be written.
  await state.sinkRecords.save(id, "again", new Map([["b", "new"]]), null);
  await state.connectors.beginRound(id, runId, new Date(), null);
}

/** The first and the last of them every day; what all of them do, each does over Postgres. */
const ends = pick(versions, (_, i) => i === 0 || i === versions.length - 1);

test.each(versions)("version %i, over Postgres", async (version) => {
  const database = `version_${version}`;
  await server.createDatabase(database);
  await server.with(database, async (client) => {
    await migrate(drizzlePostgres(client, { schema }), migrations().slice(0, version));
    await client.query(contents(version));
  });
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/${database}`;
  await expectContents({ databaseUrl, dataDirectory: directory, encryptionKey, instance }, version);
});

test.each(ends)("version %i, in a data directory", async (version) => {
  await unpackPrepared(join(directory, "pglite"));
  const fs = new DurableNodeFs(join(directory, "pglite"));
  const client = await PGlite.create({ fs, startParams: durableStartParameters() });
  // What is unpacked is of this version.
  await client.exec("drop schema millrace cascade");
  await migrate(drizzlePglite(client, { schema }), migrations().slice(0, version));
  await client.exec(contents(version));
  await client.close();
  await expectContents({ databaseUrl: null, dataDirectory: directory, encryptionKey, instance }, version);
});

/** A database that a later build has migrated. `isCompatible`: builds that know only this one's tables may go on. */
async function laterState(database: string, isCompatible: boolean): Promise<StateOptions> {
  await server.createDatabase(database);
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/${database}`;
  const options = { databaseUrl, dataDirectory: directory, encryptionKey, instance };
  await (await openState(options))[Symbol.asyncDispose]();
  const folderMillis = latestMigration() + 1;
  const move = `update millrace.settings set value = '${folderMillis}' where name = 'oldest_compatible_migration'`;
  const statements = ["alter table millrace.connectors add later text", ...(isCompatible ? [] : [move])];
  const next = { sql: statements, folderMillis, hash: "later", bps: true };
  await server.with(database, (client) =>
    migrate(drizzlePostgres(client, { schema }), [...migrations(), next]),
  );
  return options;
}

const migrated = "select id, hash, created_at from millrace.__drizzle_migrations order by id";

test("a later build's state is refused where it is not for this build, and not modified", async () => {
  const options = await laterState("later", false);
  const before = await server.query(migrated, "later");
  const error = await openState(options).then(
    () => null,
    (error: unknown) => error,
  );
  expect(error).toMatchObject({ code: "invalid_setting", message: expect.stringContaining("later version") });
  expect(await server.query(migrated, "later")).toEqual(before);
});

test("a later build's state is used where this build can, and its tables stay as they are", async () => {
  const options = await laterState("compatible", true);
  const before = await server.query(migrated, "compatible");
  await using state = await openState(options);
  await state.connectors.insert(storedConnector("kept"));
  expect((await state.connectors.get("kept")).config).toEqual(sampleConfig("kept"));
  expect(await server.query(migrated, "compatible")).toEqual(before);
});

test.each([
  ["leases", 5],
  ["parking", 7],
  ["Resume", 9],
])("a build from before %s refuses the state, without a word from this one", async (what, known) => {
  const name = `before_${what.toLowerCase()}`;
  await server.createDatabase(name);
  await server.with(name, async (client) => {
    const database = drizzlePostgres(client, { schema });
    await migrate(database);
    await expect(migrate(database, migrations().slice(0, known))).rejects.toThrow("later version");
  });
});

test("a build that knows Resume goes on with the state", async () => {
  await server.createDatabase("knows_resume");
  await server.with("knows_resume", async (client) => {
    const database = drizzlePostgres(client, { schema });
    await migrate(database);
    const before = await server.query(migrated, "knows_resume");
    await migrate(database, migrations().slice(0, 10));
    expect(await server.query(migrated, "knows_resume")).toEqual(before);
  });
});
