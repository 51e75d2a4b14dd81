// Which tables are copied beside the stream, and which have it wait: as docs/copies-and-tasks.md tells.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Relation, TableShape } from "../../../../src/change/relation.ts";
import type { CopyMode } from "../../../../src/sink/copy-sink.ts";
import { copyTable, never } from "../../../support/contract/carrying.ts";
import { PostgresSinkRig, type PostgresSinkRigOptions } from "../../../support/pipeline/postgres-sink-rig.ts";
import { relation, tableShape } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  // A superuser's sink has its foreign keys not in force.
  await server.query("create role writer login");
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const begin = (options: PostgresSinkRigOptions = {}) =>
  PostgresSinkRig.begin(server, `way_${++count}`, options);

function table(change: Partial<Relation> = {}): TableShape {
  const columns = [["id", 23, "integer"] as const, ["v", 25, "text"] as const];
  return tableShape({ ...relation("t", columns), ...change });
}

const keyed = table();

/** What the stream does while the table is copied. */
async function streamDuring(rig: PostgresSinkRig, shape: TableShape, mode: CopyMode): Promise<string> {
  await rig.sink.prepare([shape], ["text"]);
  await using copy = await rig.sink.copies.begin(shape, mode, "runs", never);
  return copy.stream;
}

/** As a task, of a table whose first copy has been made. */
async function ofTask(rig: PostgresSinkRig, shape: TableShape): Promise<string> {
  await rig.sink.prepare([shape], ["text"]);
  await copyTable(rig.sink, shape, []);
  return await streamDuring(rig, shape, "merge");
}

test("a table with a key is copied while the stream goes on: its first copy, and tasks", async () => {
  await using rig = await begin();
  expect(await streamDuring(rig, keyed, "initial")).toBe("runs");
  expect(await ofTask(rig, keyed)).toBe("runs");
  expect(await streamDuring(rig, keyed, "replace")).toBe("runs");
});

describe("the stream waits for a table", () => {
  test.each<[string, Partial<Relation>]>([
    ["without a key", { key: [] }],
    ["whose updates are not told", { replicaIdentity: "nothing" }],
    ["whose key is a hash of its rows", { isKeyedByHash: true }],
  ])("%s", async (_, change) => {
    await using rig = await begin();
    expect(await streamDuring(rig, table(change), "initial")).toBe("waits");
    expect(await ofTask(rig, table(change))).toBe("waits");
  });

  test.each([
    ["with another unique index", "create table t (id int primary key, v text unique)"],
    [
      "with an exclusion constraint",
      "create table t (id int primary key, v text, exclude using btree (v with =))",
    ],
    ["without the key", "create table t (id int not null, v text)"],
    ["with another key", "create table t (id int not null, v text, primary key (id, v))"],
  ])("whose table at the sink is one %s", async (_, sql) => {
    await using rig = await begin();
    await rig.query(sql);
    expect(await streamDuring(rig, keyed, "initial")).toBe("waits");
  });

  test("that has got another unique index at the sink since its first copy", async () => {
    await using rig = await begin();
    expect(await ofTask(rig, keyed)).toBe("runs");
    await rig.query("create unique index on t (v)");
    expect(await streamDuring(rig, keyed, "merge")).toBe("stands");
    expect(await streamDuring(rig, keyed, "replace")).toBe("waits");
  });

  test.each([
    [
      "refers to another",
      "create table other (v text primary key); create table t (id int primary key, v text references other)",
    ],
    [
      "is referred to by another",
      "create table t (id int primary key, v text); create table other (id int references t)",
    ],
  ])("that %s at the sink, where foreign keys are in force", async (_, sql) => {
    const setup = `
      do $$ begin execute format('grant create on database %I to writer', current_database()); end $$;
      grant all on schema public to writer; set role writer; ${sql}`;
    await using rig = await begin({ connection: { user: "writer" }, setup });
    expect(await streamDuring(rig, keyed, "initial")).toBe("waits");
    await using asSuperuser = await begin({ setup: sql });
    expect(await streamDuring(asSuperuser, keyed, "initial")).toBe("runs");
  });

  test("that is to be altered at the sink first", async () => {
    await using rig = await begin();
    await ofTask(rig, keyed);
    const wider = table({
      columns: [...keyed.relation.columns, { ...keyed.relation.columns[1]!, name: "w" }],
    });
    expect(await streamDuring(rig, wider, "merge")).toBe("waits");
  });

  test("where the sink is to have one session", async () => {
    await using rig = await begin({ connection: { max_pool_size: 1 } });
    expect(await streamDuring(rig, keyed, "initial")).toBe("waits");
  });

  test("whose changes the source did not publish all the time", async () => {
    await using rig = await begin();
    await ofTask(rig, keyed);
    const coverage = { excluded: [], isListed: false, isUnpublished: true };
    const unpublished = { ...keyed, coverage };
    expect(await streamDuring(rig, unpublished, "merge")).toBe("waits");
  });

  test("whose last copy was refused", async () => {
    await using rig = await begin();
    await rig.query("create table t (id int primary key, v text check (v <> 'refused'))");
    await rig.sink.prepare([keyed], ["text"]);
    const refused = copyTable(rig.sink, keyed, [{ id: 1, v: "refused" }]);
    await expect(refused).rejects.toMatchObject({ code: "sink_rejected_rows" });
    expect(await streamDuring(rig, keyed, "initial")).toBe("waits");
    await rig.query("alter table t drop constraint t_v_check");
    await copyTable(rig.sink, keyed, [{ id: 1, v: "refused" }]);
    expect(await streamDuring(rig, keyed, "merge")).toBe("runs");
  });
});

test("a table that is keyed by hash comes whole, however large it is: equal rows of it are one", async () => {
  await using rig = await begin();
  const shape = table({ isKeyedByHash: true, replicaIdentity: "full" });
  await rig.sink.prepare([shape], ["text"]);
  await using copy = await rig.sink.copies.begin(shape, "initial", "waits", never);
  expect((await copy.start(true)).ranges).toBeNull();
});
