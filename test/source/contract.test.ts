// What src/source/source.ts promises, shown for the one kind of source that streams, against a real server: order, repetition,
// acknowledgement, memory, stopping, errors, and points that tables are read as of.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ChangeBatch } from "../../src/change/change-batch.ts";
import { type Checkpoint, isDone } from "../../src/change/checkpoint.ts";
import { formatLsn, type Lsn, lsn } from "../../src/change/lsn.ts";
import { rangesLeft } from "../../src/change/page-range.ts";
import type { TableShape } from "../../src/change/relation.ts";
import { PostgresServer } from "../../src/demo/postgres-server.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { streamPace } from "../../src/source/postgres/feedback.ts";
import { PostgresSource } from "../../src/source/postgres/postgres-source.ts";
import type { ChangeStream, Source, TableCopy } from "../../src/source/source.ts";
import { postgresSource } from "../support/connector-config.ts";
import { outcomeOf } from "../support/contract-carrying.ts";
import { blankNotes } from "../support/note-store.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(60_000);

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", wal_sender_timeout: "2s" } });
});
afterAll(() => server[Symbol.asyncDispose]());

const never = new AbortController().signal;
let count = 0;

/** One life of a source over a database. */
interface Life extends AsyncDisposable {
  readonly source: Source;
  stop(reason: Error): void;
}

/** A database with a table, a slot that begins before anything was written to it, and a proxy before both. */
async function begun() {
  const name = `contract_${++count}`;
  await server.createDatabase(name);
  await server.query("create table t (id int primary key, v text)", name);
  const proxy = await TcpProxy.start(server.port);
  const live = async (): Promise<Life> => {
    const end = new AbortController();
    const config = postgresSource({ ...server.connection(name), port: proxy.port });
    const context = {
      ...{ signal: end.signal, owner: "contract", notes: await blankNotes() },
      ...{ events: { warning() {} }, sinkFollowsShapes: false },
    };
    const source = new PostgresSource(config, name, 0, context, { ...streamPace, lookAtTablesMs: 100 });
    await source.tables();
    const dispose = async () => {
      end.abort(new Error("over"));
      await source[Symbol.asyncDispose]();
    };
    return { source, stop: (reason) => end.abort(reason), [Symbol.asyncDispose]: dispose };
  };
  const life = await live();
  await life.source.publish();
  const point = await life.source.createSlot(never);
  await point[Symbol.asyncDispose]();
  const checkpoint: Checkpoint = { resumeLsn: point.lsn, partial: null, lastVersion: 0n, log: point.log };
  const sql = <Row extends object>(text: string) => server.query<Row>(text, name);
  const slotAt = async () =>
    (
      await sql<{ at: string }>(
        `select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = '${name}'`,
      )
    )[0]?.at;
  return {
    ...{ name, life, source: life.source, checkpoint, proxy, live, sql, slotAt },
    connect: () => server.connect(name),
    logEnd: async () =>
      lsn(BigInt((await sql<{ at: string }>("select (pg_current_wal_lsn() - '0/0')::text as at"))[0]!.at)),
    sessions: async () =>
      (
        await sql(
          "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
        )
      ).length,
    async [Symbol.asyncDispose]() {
      await life[Symbol.asyncDispose]();
      await proxy[Symbol.asyncDispose]();
    },
  };
}

interface Seen {
  readonly commitLsn: Lsn;
  readonly ordinal: number;
  readonly id: number;
}

/** The changes of a batch, by the first column of their new tuples. */
function changesOf(batch: ChangeBatch): readonly Seen[] {
  const view = Buffer.from(batch.arena.buffer, batch.arena.byteOffset);
  return Array.from({ length: batch.count }, (_, i) => {
    const start = batch.newStart[i]! + 2;
    const id = Number(view.toString("utf8", start + 4, start + 4 + view.readInt32BE(start)));
    return {
      commitLsn: lsn(batch.transactions.commitLsn[batch.transaction[i]!]!),
      ordinal: batch.ordinal[i]!,
      id,
    };
  });
}

/** So many changes, and where the stream stands behind them. */
async function read(stream: ChangeStream, most: number): Promise<{ seen: readonly Seen[]; resumeLsn: Lsn }> {
  const seen: Seen[] = [];
  let resumeLsn = lsn(0n);
  while (seen.length < most) {
    const batch = await stream.next();
    seen.push(...changesOf(batch));
    resumeLsn = batch.resumeLsn;
  }
  return { seen, resumeLsn };
}

async function textOf({ chunks }: TableCopy): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts).toString();
}

const idsIn = (text: string) =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => Number(line.split("\t")[0]));

/** Three transactions, that overlap: the second is committed first. Returns ids in the order of commits. */
async function overlap(at: Awaited<ReturnType<typeof begun>>): Promise<readonly number[]> {
  await using one = await at.connect();
  await using other = await at.connect();
  await one.query("begin; insert into t values (1), (2)");
  await other.query("begin; insert into t values (3); insert into t values (4), (5)");
  await one.query("insert into t values (6)");
  await other.query("commit");
  await at.sql("insert into t values (7)");
  await one.query("commit");
  return [3, 4, 5, 7, 1, 2, 6];
}

describe("a stream", () => {
  test("brings transactions in the order of their commits, and changes in the order in which they were made", async () => {
    await using at = await begun();
    const wanted = await overlap(at);
    await using stream = await at.source.stream(at.checkpoint, "text");
    const { seen } = await read(stream, wanted.length);
    expect(seen.map(({ id }) => id)).toEqual([...wanted]);
    const isBehind = (a: Seen, b: Seen) =>
      b.commitLsn < a.commitLsn || (b.commitLsn === a.commitLsn && b.ordinal <= a.ordinal);
    expect(seen.filter((each, i) => i > 0 && isBehind(seen[i - 1]!, each))).toEqual([]);
  });

  test("begins at any checkpoint with what is not done under it, at the same positions", async () => {
    await using at = await begun();
    const wanted = await overlap(at);
    await using all = await at.source.stream(at.checkpoint, "text");
    const { seen } = await read(all, wanted.length);
    await all[Symbol.asyncDispose]();
    for (const { commitLsn, ordinal } of seen.slice(0, -1)) {
      const from: Checkpoint = { ...at.checkpoint, partial: { commitLsn, ordinal } };
      await using life = await at.live();
      await using stream = await life.source.stream(from, "text");
      const left = seen.filter((each) => !isDone(from, each));
      expect((await read(stream, left.length)).seen).toEqual([...left]);
    }
  });

  test("tells when nothing is a repetition any more, and hands out that a place was reached", async () => {
    await using at = await begun();
    await overlap(at);
    await using stream = await at.source.stream(at.checkpoint, "text");
    const { resumeLsn } = await read(stream, 7);
    const end = await at.logEnd();
    stream.reach(end);
    for (let reached = resumeLsn; reached < end; ) reached = (await stream.next()).resumeLsn;
    await stream.caughtUp;
  });

  test("has the server forget what was acknowledged, by itself, and nothing else", async () => {
    await using at = await begun();
    const wanted = await overlap(at);
    const before = formatLsn(at.checkpoint.resumeLsn);
    {
      await using life = await at.live();
      await using stream = await life.source.stream(at.checkpoint, "text");
      await read(stream, wanted.length);
    }
    expect(await at.slotAt()).toBe(before);
    await using stream = await at.source.stream(at.checkpoint, "text");
    const { seen, resumeLsn } = await read(stream, wanted.length);
    expect(seen.map(({ id }) => id)).toEqual([...wanted]);
    stream.acknowledge(resumeLsn);
    // Nobody asks for the next batch meanwhile.
    await waitFor("the acknowledgement", async () => (await at.slotAt()) === formatLsn(resumeLsn));
    stream.acknowledge(at.checkpoint.resumeLsn);
    await stream[Symbol.asyncDispose]();
    expect(await at.slotAt()).toBe(formatLsn(resumeLsn));
  });

  test("stops reading when nobody takes what it has, and goes on when somebody does", async () => {
    await using at = await begun();
    await using stream = await at.source.stream(at.checkpoint, "text");
    const rows = 60_000;
    await at.sql(`insert into t select g, repeat('x', 2000) from generate_series(1, ${rows}) g`);
    const end = await at.logEnd();
    const sent = async () => {
      const sql = `select (sent_lsn - '0/0')::text as at from pg_stat_replication join pg_replication_slots on active_pid = pid where slot_name = '${at.name}'`;
      return BigInt((await at.sql<{ at: string }>(sql))[0]?.at ?? 0);
    };
    let last = -1n;
    const stands = async () => {
      const before = last;
      last = await sent();
      return last > at.checkpoint.resumeLsn && last === before;
    };
    await waitFor("the server to be left waiting", stands, { intervalMs: 500 });
    expect(last).toBeLessThan(end);
    let seen = 0;
    while (seen < rows) seen += (await stream.next()).count;
    expect(seen).toBe(rows);
  });
});

describe("a point", () => {
  test("has what was committed before it and nothing else, whatever is committed since", async () => {
    await using at = await begun();
    await at.sql("insert into t select g, 'before' from generate_series(1, 100) g");
    await using point = await at.source.snapshotPoint(never);
    await at.sql("delete from t where id <= 50; insert into t values (1000, 'behind')");
    const [table] = await at.source.tables();
    const copy = at.source.copyTable(table!, point, "text");
    expect(idsIn(await textOf(copy)).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
    expect(copy.rowsRead()).toBe(100);
    // The stream has the rest, and all of it: what lies behind the point is what the copy has not.
    await using stream = await at.source.stream({ ...at.checkpoint, resumeLsn: point.lsn }, "text");
    expect((await stream.next()).count).toBe(51);
    // Which may be done again.
    await point[Symbol.asyncDispose]();
  });

  test("has each row in one range of all, read side by side", async () => {
    await using at = await begun();
    await at.sql("insert into t select g, repeat('x', 500) from generate_series(1, 3000) g");
    const [table] = await at.source.tables();
    const size = await at.source.measure(table!);
    await using point = await at.source.snapshotPoint(never);
    await at.sql("update t set v = 'moved'");
    const ranges = rangesLeft(size!, [], size!.bytes / 7);
    expect(ranges.length).toBeGreaterThan(3);
    const parts = ranges.map((range) => at.source.copyTable(table!, point, "text", { kind: "range", range }));
    const ids = (await Promise.all(parts.map(textOf))).flatMap(idsIn);
    expect(ids.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 3000 }, (_, i) => i + 1));
  });

  test("of a table that was rewritten since tells so in place of its rows", async () => {
    await using at = await begun();
    await at.sql("insert into t select g, 'v' from generate_series(1, 10) g");
    const [table] = await at.source.tables();
    await using point = await at.source.snapshotPoint(never);
    await at.sql("alter table t alter id type bigint");
    const outcome = await outcomeOf("the copy", textOf(at.source.copyTable(table!, point, "text")));
    expect(outcome).toMatchObject({ code: "table_changed", retry: "transient" });
  });

  test("is let go with the loop that reads as of it", async () => {
    await using at = await begun();
    await at.sql("insert into t select g, repeat('x', 1000) from generate_series(1, 20000) g");
    const [table] = await at.source.tables();
    await using point = await at.source.snapshotPoint(never);
    for await (const _ of at.source.copyTable(table!, point, "text").chunks) break;
    const reading =
      "select from pg_stat_activity where datname = current_database() and state = 'active' and query ilike 'copy%'";
    await waitFor("the copy to be cancelled", async () => (await at.sql(reading)).length === 0);
    expect(idsIn(await textOf(at.source.copyTable(table!, point, "text"))).length).toBe(20_000);
  });
});

describe("stopping", () => {
  const calls: Readonly<
    Record<string, (source: Source, table: TableShape, from: Checkpoint) => Promise<unknown>>
  > = {
    tables: (source) => source.tables(),
    publish: (source) => source.publish(),
    tablesChanged: (source) => source.tablesChanged(),
    snapshotPoint: (source) => source.snapshotPoint(never),
    createSlot: (source) => source.createSlot(never),
    checkSlot: (source, _, from) => source.checkSlot(from),
    checkLog: (source, _, from) => source.checkLog(from),
    readDenial: (source, table) => source.readDenial(table),
    measure: (source, table) => source.measure(table),
    keptLog: (source) => source.keptLog(),
    stream: (source, _, from) => source.stream(from, "text"),
  };

  test.each(Object.keys(calls))("the signal ends %s while nothing answers", async (name) => {
    await using at = await begun();
    const [table] = await at.source.tables();
    at.proxy.stall();
    const reason = new Error("stopped");
    const ended = outcomeOf(name, calls[name]!(at.source, table!, at.checkpoint));
    await Bun.sleep(20);
    at.life.stop(reason);
    expect(await ended).toBe(reason);
  });

  test("the signal ends the next batch and the rows of a copy; disposing leaves no connection", async () => {
    await using at = await begun();
    await at.sql("insert into t select g, repeat('x', 1000) from generate_series(1, 20000) g");
    const [table] = await at.source.tables();
    await using point = await at.source.snapshotPoint(never);
    const stream = await at.source.stream(at.checkpoint, "text");
    await read(stream, 20_000);
    const waiting = outcomeOf("the next batch", stream.next());
    const chunks = at.source.copyTable(table!, point, "text").chunks[Symbol.asyncIterator]();
    await chunks.next();
    at.proxy.stall();
    const reading = outcomeOf(
      "the rows",
      (async () => {
        while (!(await chunks.next()).done) {}
      })(),
    );
    const reason = new Error("stopped");
    at.life.stop(reason);
    expect(await waiting).toBe(reason);
    expect(await reading).toBe(reason);
    at.proxy.resume();
    await stream[Symbol.asyncDispose]();
    await point[Symbol.asyncDispose]();
    await at.source[Symbol.asyncDispose]();
    await waitFor("the last connection to go", async () => (await at.sessions()) === 0);
  });

  test("what is disposed of in order leaves no connection either", async () => {
    await using at = await begun();
    const stream = await at.source.stream(at.checkpoint, "text");
    await (await at.source.snapshotPoint(never))[Symbol.asyncDispose]();
    await stream[Symbol.asyncDispose]();
    await at.source[Symbol.asyncDispose]();
    await waitFor("the last connection to go", async () => (await at.sessions()) === 0);
  });
});

describe("an error", () => {
  test("tells that another attempt may help where a connection broke", async () => {
    await using at = await begun();
    await using stream = await at.source.stream(at.checkpoint, "text");
    const ended = outcomeOf("the next batch", stream.next());
    at.proxy.cut();
    const error = await ended;
    expect(error).toBeInstanceOf(MillraceError);
    expect(error).toMatchObject({ retry: "transient" });
  });

  test("tells that none will where the slot is gone, or is ahead of the checkpoint", async () => {
    await using at = await begun();
    const behind = { ...at.checkpoint, resumeLsn: lsn(1n) };
    expect(await outcomeOf("a slot ahead", at.source.checkSlot(behind))).toMatchObject({
      code: "slot_ahead",
      retry: "permanent",
    });
    expect(await outcomeOf("the slot", at.source.checkSlot(at.checkpoint))).toBeNull();
    await at.sql(`select pg_drop_replication_slot('${at.name}')`);
    expect(await outcomeOf("no slot", at.source.checkSlot(at.checkpoint))).toMatchObject({
      code: "slot_missing",
      retry: "permanent",
    });
  });
});
