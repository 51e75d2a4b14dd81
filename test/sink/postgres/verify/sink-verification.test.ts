// A table of the sink that is opened for its comparison: what is seen of it, what stands in the way, and that nobody waits for it for long.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Relation, TableShape } from "../../../../src/change/relation.ts";
import { readBinaryRows } from "../../../../src/comparison/digest-rows.ts";
import type { RowComparison } from "../../../../src/comparison/row-comparison.ts";
import type { SinkRows } from "../../../../src/sink/verify-sink.ts";
import { copyTable, never } from "../../../support/contract/carrying.ts";
import { PostgresSinkRig, type PostgresSinkRigOptions } from "../../../support/pipeline/postgres-sink-rig.ts";
import { relation, tableShape } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const begin = (options: PostgresSinkRigOptions = {}) =>
  PostgresSinkRig.begin(server, `seen_${++count}`, options);

function table(change: Partial<Relation> = {}): TableShape {
  const columns = [["id", 23, "integer"] as const, ["v", 25, "text"] as const];
  const shape = tableShape({ ...relation("t", columns), ...change });
  // As a source numbers them.
  const numbered = shape.relation.columns.map((column, i) => ({ ...column, number: i + 1 }));
  return { ...shape, relation: { ...shape.relation, columns: numbered } };
}

const comparison: RowComparison = {
  columns: [
    { number: 1, readAs: null, form: { kind: "value", isInteger: true } },
    { number: 2, readAs: null, form: { kind: "characters" } },
  ],
  key: [1],
  areEqualRowsOne: false,
  isEncoded: false,
  sample: null,
};

async function copied(options: PostgresSinkRigOptions = {}): Promise<PostgresSinkRig> {
  const rig = await begin(options);
  await rig.sink.prepare([table()], ["text"]);
  await copyTable(rig.sink, table(), []);
  await rig.query("insert into t select g, 'v' || g from generate_series(1, 1000) g");
  return rig;
}

async function rowsOf(opened: SinkRows): Promise<number> {
  let rows = 0;
  const scan = { kind: "buckets", buckets: 64, range: null } as const;
  await readBinaryRows(opened.read(comparison, scan), (row) => {
    rows += row.integer(1);
  });
  return rows;
}

test("the rows are those of when it was opened", async () => {
  await using rig = await copied();
  await using opened = await rig.sink.verification.open(table(), never);
  expect(opened.columns).toEqual([...comparison.columns]);
  await rig.query("delete from t where id <= 500");
  expect(await rowsOf(opened)).toBe(1000);
  expect(await rowsOf(opened)).toBe(1000);
  await using later = await rig.sink.verification.open(table(), never);
  expect(await rowsOf(later)).toBe(500);
});

test("several readings at once see the same rows, each in a session of its own", async () => {
  await using rig = await copied();
  await using opened = await rig.sink.verification.open(table(), never);
  await rig.query("delete from t where id <= 500");
  const scan = { kind: "buckets", buckets: 64, range: null } as const;
  const first = opened.read(comparison, scan)[Symbol.asyncIterator]();
  await first.next();
  expect(await Promise.all([rowsOf(opened), rowsOf(opened)])).toEqual([1000, 1000]);
  while (!(await first.next()).done);
  const sessions = await rig.query(
    "select from pg_stat_activity where datname = current_database() and state = 'idle in transaction'",
  );
  expect(sessions.length).toBe(3);
});

test("who waits for the table's lock waits for some seconds only", async () => {
  await using rig = await copied();
  await using opened = await rig.sink.verification.open(table(), never);
  const beganMs = performance.now();
  await rig.query("truncate t");
  expect(performance.now() - beganMs).toBeLessThan(15_000);
  await expect(rowsOf(opened)).rejects.toMatchObject({ code: "table_changed" });
}, 30_000);

test("a table that is locked is not waited for", async () => {
  await using rig = await copied();
  await server.with(rig.name, async (other) => {
    await other.query("begin; lock table t");
    await expect(rig.sink.verification.open(table(), never)).rejects.toMatchObject({ code: "table_changed" });
    await other.query("rollback");
  });
});

test("what cannot be compared is said", async () => {
  await using one = await copied({ connection: { max_pool_size: 1 } });
  await expect(one.sink.verification.open(table(), never)).rejects.toMatchObject({
    code: "unsupported_kind",
    message: expect.stringContaining("max_pool_size"),
  });
  await using uncopied = await begin();
  await uncopied.sink.prepare([table()], ["text"]);
  await expect(uncopied.sink.verification.open(table(), never)).rejects.toMatchObject({
    code: "table_changed",
    message: expect.stringContaining("no copy"),
  });
});

test("stopping ends the session", async () => {
  await using rig = await copied();
  const stop = new AbortController();
  const opened = await rig.sink.verification.open(table(), stop.signal);
  stop.abort(new Error("stopped"));
  await expect(rowsOf(opened)).rejects.toThrow("stopped");
  await opened[Symbol.asyncDispose]();
});
