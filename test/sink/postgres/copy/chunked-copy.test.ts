// Copies beside the stream at a real server: how chunks come into their place, piece by piece, and what is left behind.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { CopyMode, TableCopy } from "../../../../src/sink/copy-sink.ts";
import { dropSideTables } from "../../../../src/sink/postgres/bookkeeping/sink-objects.ts";
import { postgresSink } from "../../../support/api/connector-config.ts";
import { carry, chunkOf, copyTable, missingOf, never } from "../../../support/contract/carrying.ts";
import {
  accounts,
  type ContractRow,
  entries,
  insert,
  remove,
  rowsOf,
  update,
} from "../../../support/contract/history.ts";
import { PostgresSinkRig } from "../../../support/pipeline/postgres-sink-rig.ts";
import { transaction } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../../support/servers/tcp-proxy.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const head = { kind: "range", range: { from: 0, to: 4 } } as const;
const tail = { kind: "range", range: { from: 4, to: null } } as const;

/** `rows`: of the first copy of `accounts`; null: it has none. */
async function begin(name: string, rows: readonly ContractRow[] | null = null): Promise<PostgresSinkRig> {
  const rig = await PostgresSinkRig.begin(server, name);
  await missingOf(rig.sink);
  await copyTable(rig.sink, entries, []);
  if (rows) await copyTable(rig.sink, accounts, rows);
  return rig;
}

async function started(rig: PostgresSinkRig, mode: CopyMode, isDivided = false): Promise<TableCopy> {
  const copy = await rig.sink.copies.begin(accounts, mode, "runs", never);
  expect(copy.stream).toBe("runs");
  await copy.start(isDivided);
  return copy;
}

function held(rig: PostgresSinkRig): Promise<ContractRow[]> {
  return rig.query<object>("select id, v from accounts order by id") as Promise<ContractRow[]>;
}

test("the stream does not wait for whoever holds the table: the piece is tried again", async () => {
  await using rig = await begin("chunk_locked", rowsOf("1:a 9:stray"));
  await using copy = await started(rig, "replace");
  await copy.take(chunkOf(accounts, rowsOf("1:A 2:B")));
  {
    await using holder = await server.connect(rig.name);
    await holder.query("begin; lock table accounts in share mode");
    expect(await copy.settle()).toBe("locked");
    await carry(rig, [transaction(1, [insert(entries, 1)])]);
    await holder.query("rollback");
    expect(await copy.settle()).toBe("all");
    await holder.query("begin; lock table accounts in share mode");
    expect(await copy.finish()).toBe("locked");
  }
  expect(await copy.finish()).toBe("all");
  expect(await held(rig)).toEqual([...rowsOf("1:A 2:B")]);
  expect(await rig.query("select id from entries")).toEqual([{ id: 1 }]);
});

test("rows that a lock on the bookkeeping brings back are removed again", async () => {
  await using rig = await begin("chunk_unrecorded", rowsOf("1:a 9:stray"));
  await using copy = await started(rig, "replace");
  await copy.take(chunkOf(accounts, rowsOf("1:A 2:B")));
  expect(await copy.settle()).toBe("all");
  {
    await using holder = await server.connect(rig.name);
    await holder.query("begin; lock table millrace.table_copy in share mode");
    expect(await copy.finish()).toBe("locked");
  }
  expect(await copy.finish()).toBe("all");
  expect(await held(rig)).toEqual([...rowsOf("1:A 2:B")]);
});

test("a first copy waits for nobody who holds its table", async () => {
  await using rig = await begin("chunk_begin_locked");
  {
    await using _given = await started(rig, "initial");
  }
  await using holder = await server.connect(rig.name);
  await holder.query("begin; lock table accounts in access exclusive mode");
  await expect(rig.sink.copies.begin(accounts, "initial", "runs", never)).rejects.toMatchObject({
    code: "table_locked",
  });
  await holder.query("rollback");
  await using copy = await rig.sink.copies.begin(accounts, "initial", "runs", never);
  await holder.query("begin; lock table accounts in access exclusive mode");
  await copy.start(false);
  await holder.query("rollback");
  await copy.take(chunkOf(accounts, rowsOf("1:a")));
  expect(await copy.settle()).toBe("all");
  expect(await copy.finish()).toBe("all");
  expect(await held(rig)).toEqual([...rowsOf("1:a")]);
});

test("a large chunk comes in pieces; what the stream brings between them stays", async () => {
  await using rig = await begin("chunk_pieces");
  await using copy = await started(rig, "initial");
  const many = Array.from({ length: 60_000 }, (_, id) => ({ id, v: "copied" }));
  await copy.take(chunkOf(accounts, many));
  expect(await copy.settle()).toBe("more");
  const before = await held(rig);
  expect(before.length).toBeLessThan(many.length);
  const changes = [update(59_999, "streamed"), remove(59_998), update(0, "streamed"), remove(1)];
  await carry(rig, [transaction(1, changes)]);
  while ((await copy.settle()) !== "all") {}
  expect(await copy.finish()).toBe("all");
  const wanted = many
    .filter(({ id }) => id !== 1 && id !== 59_998)
    .map(({ id, v }) => ({ id, v: id === 0 || id === 59_999 ? "streamed" : v }));
  expect(await held(rig)).toEqual(wanted);
});

test("rows that are right are not written", async () => {
  await using rig = await begin("chunk_same", rowsOf("1:a 2:b"));
  const versions = () =>
    rig.query<{ id: number; xmin: string }>("select id, xmin::text from accounts order by id");
  const before = await versions();
  await using copy = await started(rig, "merge");
  await copy.take(chunkOf(accounts, rowsOf("1:a 2:B 3:c")));
  expect(await copy.settle()).toBe("all");
  await copy.finish();
  expect(await held(rig)).toEqual([...rowsOf("1:a 2:B 3:c")]);
  const after = await versions();
  expect(after[0]).toEqual(before[0]!);
  expect(after[1]).not.toEqual(before[1]!);
});

test.each([
  ["has got a column", "alter table accounts add extra text"],
  ["has got another unique index", "create unique index on accounts (v)"],
  ["is another", "alter table accounts rename to former; create table accounts (like former including all)"],
  ["is gone", "drop table accounts"],
])("a copy whose table at the sink %s since is to begin again", async (_, sql) => {
  await using rig = await begin("chunk_altered", rowsOf("1:a"));
  await using copy = await started(rig, "merge");
  await copy.take(chunkOf(accounts, rowsOf("1:A")));
  await rig.query(sql);
  await expect(copy.settle()).rejects.toMatchObject({ code: "table_changed" });
});

test("a copy that is made leaves nothing behind, nor does one of a whole table that is given up", async () => {
  await using rig = await begin("chunk_left");
  {
    await using given = await started(rig, "initial");
    await given.take(chunkOf(accounts, rowsOf("1:a")));
    expect((await rig.left()).length).toBeGreaterThan(1);
  }
  expect(await rig.left()).toEqual([]);
  await missingOf(rig.sink);
  for (const mode of ["initial", "merge", "replace"] as const) {
    {
      await using copy = await started(rig, mode, true);
      await copy.take(chunkOf(accounts, rowsOf("1:a"), { part: head }));
      await copy.take(chunkOf(accounts, rowsOf("2:b"), { part: tail }));
      while ((await copy.settle()) !== "all") {}
      await copy.finish();
    }
    expect(await rig.left()).toEqual([]);
  }
});

test("what a copy could not drop at its end goes with its connector", async () => {
  await using rig = await begin("chunk_orphans");
  {
    await using copy = await started(rig, "initial", true);
    await copy.take(chunkOf(accounts, rowsOf("1:a"), { part: head }));
    await copy.settle();
  }
  // As after a death between the end, which is durable, and the drop.
  await rig.query("delete from millrace.copied_range; delete from millrace.divided_copy");
  expect((await rig.left()).length).toBeGreaterThan(0);
  await dropSideTables(postgresSink(server.connection(rig.name)), rig.name, never);
  expect(await rig.left()).toEqual([]);
});

test("what a copy in ranges leaves that is broken off goes when the table is not what it was", async () => {
  await using rig = await begin("chunk_swept");
  {
    await using copy = await started(rig, "initial", true);
    await copy.take(chunkOf(accounts, rowsOf("1:a"), { part: head }));
    await copy.settle();
    await copy.take(chunkOf(accounts, rowsOf("2:b"), { part: tail }));
  }
  await rig.die();
  await rig.open();
  expect((await rig.left()).some((name) => name.startsWith("touched_"))).toBe(true);
  await missingOf(rig.sink, [{ ...accounts, storage: "2" }, entries]);
  expect(await rig.left()).toEqual([]);
});

test("ranges of an earlier attempt stay where the next one ends before it has started", async () => {
  await using rig = await begin("chunk_kept");
  {
    await using copy = await started(rig, "initial", true);
    await copy.take(chunkOf(accounts, rowsOf("1:a"), { part: head }));
    await copy.settle();
  }
  {
    await using _resumed = await rig.sink.copies.begin(accounts, "initial", "runs", never);
  }
  await using copy = await rig.sink.copies.begin(accounts, "initial", "runs", never);
  const { ranges } = await copy.start(true);
  expect(ranges?.done).toMatchObject([head.range]);
});

test("a range whose COMMIT had no reply is there once, also for the same sink", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using rig = await PostgresSinkRig.begin(server, "chunk_lost", { connection: { port: proxy.port } });
  await missingOf(rig.sink);
  const ranges = async () => {
    const copy = await rig.sink.copies.begin(accounts, "initial", "waits", never);
    return { copy, started: await copy.start(true) };
  };
  const { copy } = await ranges();
  await copy.take(chunkOf(accounts, rowsOf("1:a"), { part: head }));
  const lost = proxy.loseReply("commit", "COMMIT");
  await expect(copy.take(chunkOf(accounts, rowsOf("2:b"), { part: tail }))).rejects.toThrow();
  await lost;
  await copy[Symbol.asyncDispose]();
  await missingOf(rig.sink);
  const again = await ranges();
  const isThere = again.started.ranges?.done.some(({ from }) => from === 4);
  if (!isThere) await again.copy.take(chunkOf(accounts, rowsOf("2:b"), { part: tail }));
  await again.copy.finish();
  expect(await held(rig)).toEqual([...rowsOf("1:a 2:b")]);
  expect(await missingOf(rig.sink)).toEqual(["public.entries"]);
});

test("ranges whose rows a crash of the server has taken away are copied again", async () => {
  await using crashing = await PostgresServer.start();
  const setup = "create unlogged table accounts (id int primary key, v text not null)";
  await using rig = await PostgresSinkRig.begin(crashing, "chunk_lost", { setup });
  await missingOf(rig.sink);
  await copyTable(rig.sink, entries, []);
  {
    await using copy = await started(rig, "initial", true);
    await copy.take(chunkOf(accounts, rowsOf("1:a 2:b"), { part: head }));
    expect(await copy.settle()).toBe("all");
  }
  await rig.die();
  await crashing.stop("immediate");
  await crashing.launch();
  await rig.open();
  expect(await missingOf(rig.sink)).toEqual(["public.accounts"]);
  await using copy = await rig.sink.copies.begin(accounts, "initial", "runs", never);
  expect((await copy.start(true)).ranges).toMatchObject({ done: [] });
});
