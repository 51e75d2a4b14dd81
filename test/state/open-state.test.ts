// Opening the state: one service at a time, the right key, nothing readable on disk, nothing lost by kill -9.

import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StateOptions } from "../../src/state/open-database.ts";
import { openState } from "../../src/state/open-state.ts";
import { plantedSecret, sampleConfig, storedConnector } from "../support/api/sample-connector.ts";
import { LendingPooler } from "../support/servers/lending-pooler.ts";
import { startPooler } from "../support/servers/pooler.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let directory: string;
const otherKey = Buffer.alloc(32, 9).toString("base64");
const anotherKey = Buffer.alloc(32, 10).toString("base64");

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function options(change: Partial<StateOptions> = {}): StateOptions {
  return {
    databaseUrl: null,
    dataDirectory: join(directory, "data"),
    encryptionKey: null,
    instance: crypto.randomUUID(),
    ...change,
  };
}

function refusal(opening: Promise<AsyncDisposable>): Promise<unknown> {
  return opening.then(
    async (state) => {
      await state[Symbol.asyncDispose]();
      return "it was opened";
    },
    (error: unknown) => error,
  );
}

test("a data directory is created for its owner only, with a key file, and can be opened again", async () => {
  {
    await using state = await openState(options());
    await state.connectors.insert(storedConnector("kept"));
  }
  const data = join(directory, "data");
  expect((await stat(data)).mode & 0o777).toBe(0o700);
  expect((await stat(join(data, "encryption.key"))).mode & 0o777).toBe(0o600);
  await using again = await openState(options());
  expect((await again.connectors.find("kept"))?.config).toEqual(sampleConfig("kept"));
});

test("an empty directory of the database is filled as a missing one is", async () => {
  const database = join(directory, "data", "pglite");
  await mkdir(database, { recursive: true });
  await using state = await openState(options());
  await state.connectors.insert(storedConnector("kept"));
  // initdb would make three databases: this one, and two that others are made from.
  expect(await readdir(join(database, "base"))).toHaveLength(1);
});

test("a directory of something else is not taken for the database's", async () => {
  const database = join(directory, "data", "pglite");
  await mkdir(database, { recursive: true });
  await writeFile(join(database, "note.txt"), "mine");
  const error = await refusal(openState(options()));
  expect(error).toMatchObject({ code: "state_unavailable" });
  expect(String(error)).toContain(database);
  expect(await readdir(database)).toEqual(["note.txt"]);
});

test("no file of the data directory contains a secret in plain text", async () => {
  {
    await using state = await openState(options());
    await state.connectors.insert({ ...storedConnector("sealed"), cleanup: sampleConfig("sealed") });
  }
  const paths = await readdir(join(directory, "data"), { recursive: true, withFileTypes: true });
  for (const entry of paths.filter((path) => path.isFile())) {
    const bytes = await readFile(join(entry.parentPath, entry.name));
    expect(bytes.includes(plantedSecret)).toBe(false);
  }
});

test("a second service on the same data directory is refused, until the first has ended", async () => {
  {
    await using _first = await openState(options());
    const error = await refusal(openState(options()));
    expect(error).toMatchObject({ code: "invalid_setting" });
    expect(String(error)).toContain("--data-dir");
    expect(String(error)).toContain(String(process.pid));
  }
  await using _second = await openState(options());
});

test("a new data directory's lock is held once the new files are synced to disk", async () => {
  const script = join(import.meta.dir, "..", "support", "runtime", "hold-new-directory.ts");
  const child = Bun.spawn([process.execPath, script, join(directory, "data")], { stdout: "pipe" });
  try {
    for await (const chunk of child.stdout) {
      expect(new TextDecoder().decode(chunk)).toBe("locked\n");
      break;
    }
    const error = await refusal(openState(options()));
    expect(error).toMatchObject({ code: "invalid_setting" });
    expect(String(error)).toContain(`process ${child.pid}`);
  } finally {
    child.kill("SIGKILL");
    await child.exited;
  }
  await using _next = await openState(options());
});

test("a key other than the state's is refused", async () => {
  {
    await using _state = await openState(options());
  }
  expect(await refusal(openState(options({ encryptionKey: otherKey })))).toMatchObject({
    code: "encryption_key_mismatch",
  });
});

test("an invalid key, or a key file that others may read, is refused without being shown", async () => {
  for (const encryptionKey of ["planted", Buffer.alloc(31).toString("base64")]) {
    const error = await refusal(openState(options({ encryptionKey })));
    expect(error).toMatchObject({ code: "invalid_setting" });
    expect(String(error)).not.toContain("planted");
  }
  {
    await using _state = await openState(options());
  }
  const path = join(directory, "data", "encryption.key");
  await chmod(path, 0o644);
  expect(String(await refusal(openState(options())))).toContain(`chmod 600 ${path}`);
});

test("saved data survives kill -9", async () => {
  const script = join(import.meta.dir, "..", "support", "runtime", "save-until-killed.ts");
  const child = Bun.spawn([process.execPath, script, join(directory, "data")], { stdout: "pipe" });
  let last = 0;
  let text = "";
  for await (const chunk of child.stdout) {
    text += new TextDecoder().decode(chunk);
    const lines = text.split("\n").slice(0, -1);
    last = Number(lines.at(-1) ?? 0);
    if (last >= 300) child.kill("SIGKILL");
  }
  await child.exited;
  last = Number(text.split("\n").slice(0, -1).at(-1));
  await using state = await openState(options());
  const found = await state.sinkRecords.load("killed");
  expect(Number(found?.text)).toBeGreaterThanOrEqual(last);
  expect(found?.parts.get("part")).toBe(found?.text ?? "");
});

test("over Postgres: replicas share the state, and the tables are in the service's own schema", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const inPostgres = () => options({ databaseUrl, encryptionKey: otherKey });
  {
    await using state = await openState(inPostgres());
    await using other = await openState(inPostgres());
    await state.connectors.insert(storedConnector("kept"));
    expect((await other.connectors.get("kept")).config).toEqual(sampleConfig("kept"));
    expect(state.shared?.instance).not.toBe(other.shared?.instance ?? "");
    const tables = await server.query<{ schemaname: string }>(
      "select distinct schemaname from pg_tables where schemaname not in ('pg_catalog', 'information_schema')",
    );
    expect(tables).toEqual([{ schemaname: "millrace" }]);
    const wrongKey = await refusal(openState({ ...inPostgres(), encryptionKey: anotherKey }));
    expect(wrongKey).toMatchObject({ code: "encryption_key_mismatch" });
  }
  await using again = await openState(inPostgres());
  expect((await again.connectors.list()).map(({ id }) => id)).toEqual(["kept"]);
});

test("over Postgres: of services that start at once, one migrates, and all of them open the state", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const openings = Array.from({ length: 5 }, () =>
    openState(options({ databaseUrl, encryptionKey: otherKey })),
  );
  for (const state of await Promise.all(openings)) {
    await state.ping();
    await state[Symbol.asyncDispose]();
  }
});

test("over Postgres: a service that holds the lock of earlier versions keeps this one out, and is named", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres:${plantedSecret}@127.0.0.1:${server.port}/postgres`;
  const inPostgres = options({ databaseUrl, encryptionKey: otherKey });
  await using earlier = await server.connect();
  await earlier.query("select pg_advisory_lock(x'6d696c6c'::int, x'72616365'::int)");
  const [own] = (await earlier.query("select pg_backend_pid() as pid")).rows as { pid: number }[];
  const begunAt = performance.now();
  const error = await refusal(openState(inPostgres));
  expect(performance.now() - begunAt).toBeWithin(4_500, 20_000);
  expect(error).toMatchObject({ code: "invalid_setting" });
  expect(String(error)).toContain(`pid ${own?.pid}`);
  expect(String(error)).toContain("of a version that shares it with no other");
  expect(String(error)).toContain("DATABASE_URL");
  expect(String(error)).not.toContain(plantedSecret);
  expect(await server.query("select from pg_namespace where nspname = 'millrace'")).toEqual([]);
  const opening = openState(inPostgres);
  await Bun.sleep(500);
  await earlier.query("select pg_advisory_unlock(x'6d696c6c'::int, x'72616365'::int)");
  await (await opening)[Symbol.asyncDispose]();
});

test("over Postgres: while a replica works on the state, a service of earlier versions cannot take its lock back", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  await using earlier = await server.connect();
  const takesLock = async () => {
    const sql = "select pg_try_advisory_lock(x'6d696c6c'::int, x'72616365'::int) as taken";
    return (await earlier.query<{ taken: boolean }>(sql)).rows[0]?.taken;
  };
  const one = await openState(options({ databaseUrl, encryptionKey: otherKey }));
  const other = await openState(options({ databaseUrl, encryptionKey: otherKey }));
  expect(await takesLock()).toBe(false);
  await one[Symbol.asyncDispose]();
  expect(await takesLock()).toBe(false);
  const missed = Promise.withResolvers<void>();
  other.shared!.notices.listen(() => missed.resolve());
  await server.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millrace notices%'",
  );
  await missed.promise;
  expect(await takesLock()).toBe(false);
  await other[Symbol.asyncDispose]();
  await waitFor("the lock to be free", takesLock);
});

test("over Postgres: a pooler that lends sessions is refused before anything is changed or locked; one that keeps them is not", async () => {
  await using server = await PostgresServer.start();
  const urlOf = (port: number) => `postgres://postgres:${plantedSecret}@127.0.0.1:${port}/postgres`;
  await using lending = await LendingPooler.start(server.port);
  const error = await refusal(
    openState(options({ databaseUrl: urlOf(lending.port), encryptionKey: otherKey })),
  );
  expect(error).toMatchObject({ code: "invalid_setting" });
  expect(String(error)).toContain("Connect to the server itself, not to a pooler.");
  expect(String(error)).not.toContain(plantedSecret);
  expect(await server.query("select from pg_namespace where nspname = 'millrace'")).toEqual([]);
  expect(await server.query("select from pg_locks where locktype = 'advisory'")).toEqual([]);
  await using keeping = await startPooler(server.port);
  await using state = await openState(options({ databaseUrl: urlOf(keeping.port), encryptionKey: otherKey }));
  await state.ping();
});

test("over Postgres: a service that runs stops when a later one has made tables that are not for it", async () => {
  await using server = await PostgresServer.start();
  const databaseUrl = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  await using state = await openState(options({ databaseUrl, encryptionKey: otherKey }));
  const self = {
    id: "a",
    instance: state.shared!.instance,
    host: "a",
    version: "1",
    weight: 1,
    leaseMs: 6_000,
    startedAt: new Date(),
  };
  await state.shared!.leases.join(self);
  const later = "insert into millrace.__drizzle_migrations (hash, created_at) values ('later', 9e15)";
  await server.query(later);
  await state.shared!.leases.renew(self, null);
  expect(state.lost.aborted).toBe(false);
  await server.query(
    "update millrace.settings set value = '9000000000000000' where name = 'oldest_compatible_migration'",
  );
  await expect(state.shared!.leases.renew(self, null)).rejects.toThrow("later version");
  expect(state.lost.reason).toMatchObject({ code: "invalid_setting" });
});

test("the error for an unreachable state database does not contain the password", async () => {
  const databaseUrl = `postgres://postgres:${plantedSecret}@127.0.0.1:1/postgres`;
  const error = await refusal(openState(options({ databaseUrl, encryptionKey: otherKey })));
  expect(error).toMatchObject({ code: "state_unavailable" });
  expect(String(error)).not.toContain(plantedSecret);
});

test.each([
  ["its lock file and had written nothing", { "postmaster.pid": "" }],
  [
    "any of its files that a start replaces",
    {
      "postmaster.pid": "-42\n/pg",
      "postmaster.opts": "",
      "pg_stat/pgstat.stat": "torn",
      "pg_stat/pgstat.tmp": "torn",
      "global/pg_internal.init": "torn",
      "global/pg_filenode.map.tmp": "torn",
      "pg_wal/xlogtemp.42": "torn",
      "pg_logical/replorigin_checkpoint.tmp": "torn",
      "postgresql.auto.conf.tmp": "torn",
    },
  ],
])("a state opens after its process died while it wrote %s", async (_, files) => {
  {
    await using state = await openState(options());
    await state.connectors.insert(storedConnector("kept"));
  }
  for (const [name, text] of Object.entries(files))
    await writeFile(join(directory, "data", "pglite", name), text);
  await using state = await openState(options());
  expect((await state.connectors.find("kept"))?.config).toEqual(sampleConfig("kept"));
});

test("when Postgres refuses to open a state, the error contains Postgres' own words", async () => {
  {
    await using _state = await openState(options());
  }
  await writeFile(join(directory, "data", "pglite", "PG_VERSION"), "9.1\n");
  const error = await refusal(openState(options()));
  expect(error).toMatchObject({ code: "state_unavailable" });
  expect(String(error)).toContain("database files are incompatible with server");
});
