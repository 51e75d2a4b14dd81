// Pitfalls of the replication protocol and of the client library, each tested on a real server.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ChangeBatch } from "../../../src/change/change-batch.ts";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { formatLsn, type Lsn, lsn } from "../../../src/change/lsn.ts";
import { isPacked } from "../../../src/change/packed-hex.ts";
import { clientOptions } from "../../../src/connection/postgres-client.ts";
import { describePostgresError } from "../../../src/connection/postgres-failure.ts";
import { PostgresSource, type SourcePace } from "../../../src/source/postgres/postgres-source.ts";
import { dropPostgresObjects } from "../../../src/source/postgres/source-objects.ts";
import { streamPace } from "../../../src/source/postgres/stream/feedback.ts";
import { ReplicationClient } from "../../../src/source/postgres/stream/replication-client.ts";
import { fullConnection, postgresSource } from "../../support/api/connector-config.ts";
import { dropMeanwhile } from "../../support/drop-meanwhile.ts";
import { emptySourceState } from "../../support/pipeline/source-state.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { wal_sender_timeout: "2s", fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

/** A database with a table, and a slot that starts before the first write. */
async function place(port = server.port, pace?: SourcePace, maxBufferedRows = 0) {
  const database = `stream_${++count}`;
  const slot = `millrace_${database}`;
  await server.createDatabase(database);
  await server.query("create table t (id int primary key, v text)", database);
  const controller = new AbortController();
  const config = postgresSource({ ...server.connection(database), port });
  const source = new PostgresSource(
    config,
    slot,
    maxBufferedRows,
    {
      signal: controller.signal,
      state: await emptySourceState(),
      events: { warning: () => {} },
      sinkFollowsShapes: false,
    },
    pace,
  );
  await source.tables();
  await source.publish();
  const point = await source.createSlot(new AbortController().signal);
  await point[Symbol.asyncDispose]();
  const checkpoint: Checkpoint = { resumeLsn: point.lsn, partial: null, lastVersion: 0n };
  return {
    slot,
    source,
    checkpoint,
    sql: (text: string) => server.query(text, database),
    connect: () => server.connect(database),
    connection: fullConnection({ ...server.connection(database), port }),
    confirmed: async () => {
      const [row] = await server.query<{ at: string }>(
        `select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = '${slot}'`,
      );
      return row?.at;
    },
    async [Symbol.asyncDispose]() {
      controller.abort(new Error("the test is over"));
      await dropPostgresObjects(
        postgresSource(server.connection(database)),
        slot,
        AbortSignal.timeout(20_000),
      );
      dropMeanwhile(server, database);
    },
  };
}

/** The first columns of the batch's new tuples, as text. */
function ids(batch: ChangeBatch): number[] {
  const view = Buffer.from(batch.arena.buffer, batch.arena.byteOffset);
  return Array.from({ length: batch.count }, (_, i) => {
    const start = batch.newStart[i]! + 2;
    return Number(view.toString("utf8", start + 4, start + 4 + view.readInt32BE(start)));
  });
}

test("overlapping transactions are all received over many reconnects, each acknowledged at its end", async () => {
  await using at = await place();
  await using first = await at.connect();
  await using second = await at.connect();
  for (let i = 0; i < 10; i++) {
    await first.query("begin");
    await second.query("begin");
    await first.query(`insert into t values (${i * 2}, 'a')`);
    await second.query(`insert into t values (${i * 2 + 1}, 'b')`);
    await Promise.all([first.query("commit"), second.query("commit")]);
  }
  const seen: number[] = [];
  let { checkpoint } = at;
  while (seen.length < 20) {
    await using stream = await at.source.stream(checkpoint, "text");
    const batch = await stream.next();
    const whole = Array.from({ length: batch.transactions.count }, (_, i) => batch.transactions.endLsn[i]!);
    seen.push(...ids(batch).slice(0, 1));
    checkpoint = { ...checkpoint, resumeLsn: lsn(whole[0]!) };
    stream.acknowledge(checkpoint.resumeLsn);
  }
  expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test("received changes that are not durable are never acknowledged, and the connection survives wal_sender_timeout", async () => {
  await using at = await place();
  const before = at.checkpoint.resumeLsn;
  await using stream = await at.source.stream(at.checkpoint, "text");
  await at.sql("insert into t select g, repeat('x', 2000) from generate_series(1, 30000) g");
  // More than the stream may buffer: its socket is paused, and only the feedback timer writes to the server.
  await Bun.sleep(5_000);
  expect(await at.confirmed()).toBe(formatLsn(before));
  let rows = 0;
  let last: Lsn = before;
  while (rows < 30_000) {
    const batch = await stream.next();
    rows += batch.count;
    last = batch.resumeLsn;
  }
  expect(rows).toBe(30_000);
  stream.acknowledge(last);
  await waitFor("the acknowledgement", async () => (await at.confirmed()) === formatLsn(last));
});

test("large bytea of a transaction in progress is stored as its bytes, as any other is", async () => {
  await using at = await place();
  // Whoever takes the last byte of its OID for the kind of a column reads on at a wrong place.
  await at.sql(`do $$ begin loop
    create table b (id int primary key, v bytea);
    exit when 'b'::regclass::oid::int8 % 256 = ascii('t');
    drop table b;
  end loop; end $$`);
  await at.sql("alter table b replica identity full; alter table b alter v set storage external");
  await at.source.tables();
  await at.source.publish();
  await at.sql(
    "do $$ begin execute format('alter database %I set debug_logical_replication_streaming = immediate', current_database()); end $$",
  );
  await using stream = await at.source.stream(at.checkpoint, "text", { takesInProgress: true });
  await at.sql(
    "insert into b select 1, string_agg(decode(md5(g::text), 'hex'), '') from generate_series(1, 100000) g; update b set v = v || v",
  );
  const packed: boolean[] = [];
  while (packed.length < 3) {
    const { arena, count, oldStart, oldEnd, newStart } = await stream.next();
    const view = Buffer.from(arena.buffer, arena.byteOffset);
    const isValuePacked = (start: number) => {
      const value = start + 2 + 4 + view.readInt32BE(start + 2);
      return isPacked(view.readInt32BE(value));
    };
    for (let i = 0; i < count; i++) {
      if (oldEnd[i]! > oldStart[i]!) packed.push(isValuePacked(oldStart[i]!));
      packed.push(isValuePacked(newStart[i]!));
    }
  }
  expect(packed).toEqual([true, true, true]);
});

test("nothing is awaited at the end of a backlog", async () => {
  await using at = await place(server.port, { ...streamPace, tableCheckMs: 10_000, collectMs: 600_000 });
  await at.sql("do $$ begin for n in 1..5000 loop insert into t values (n, 'a'); commit; end loop; end $$");
  await using stream = await at.source.stream(at.checkpoint, "text");
  expect(ids(await stream.next())).toEqual(Array.from({ length: 5_000 }, (_, i) => i + 1));
});

test("has caught up when the last batch of what was logged is written, and not while the reader has it", async () => {
  await using at = await place();
  await at.sql("insert into t values (1, 'a')");
  await using stream = await at.source.stream(at.checkpoint, "text");
  let isCaughtUp = false;
  void stream.caughtUp.then(() => {
    isCaughtUp = true;
  });
  expect(ids(await stream.next())).toEqual([1]);
  // Whatever the server says meanwhile.
  await at.sql("insert into t values (2, 'a')");
  await Bun.sleep(200);
  expect(isCaughtUp).toBe(false);
  stream.next().catch(() => {});
  await Bun.sleep(0);
  expect(isCaughtUp).toBe(true);
});

test("catches up at the end of what was logged, though the buffer never is empty behind it", async () => {
  await using at = await place(server.port, undefined, 1_000);
  await at.sql("insert into t values (0, 'a')");
  await using stream = await at.source.stream(at.checkpoint, "text");
  let isCaughtUp = false;
  void stream.caughtUp.then(() => {
    isCaughtUp = true;
  });
  for (const from of [100_000, 200_000, 300_000])
    await at.sql(`insert into t select ${from} + g, 'b' from generate_series(1, 20000) g`);
  // Into the second of them.
  for (let rows = 0; rows < 20_002; ) {
    await Bun.sleep(1);
    rows += (await stream.next()).count;
  }
  stream.next().catch(() => {});
  await Bun.sleep(0);
  expect(isCaughtUp).toBe(true);
});

test("small transactions of a backlog arrive together, and later ones on their own", async () => {
  await using at = await place();
  await at.sql("do $$ begin for n in 1..5000 loop insert into t values (n, 'a'); commit; end loop; end $$");
  await using stream = await at.source.stream(at.checkpoint, "text");
  const startedMs = performance.now();
  const batches: ChangeBatch[] = [];
  for (let rows = 0; rows < 5_000; rows += batches.at(-1)!.count) batches.push(await stream.next());
  const seconds = (performance.now() - startedMs) / 1000;
  expect(batches.flatMap(ids)).toEqual(Array.from({ length: 5_000 }, (_, i) => i + 1));
  // Without collecting, this fast reader would get hundreds.
  expect(batches.length).toBeLessThan(4 + seconds * 6);
  for (let id = 5_001; id < 5_004; id++) {
    await at.sql(`insert into t values (${id}, 'b')`);
    expect(ids(await stream.next())).toEqual([id]);
  }
});

test("a transaction of any size arrives in pieces, and only the last one ends it", async () => {
  await using at = await place();
  await at.sql("insert into t select g, repeat('y', 3000) from generate_series(1, 3000) g");
  await using stream = await at.source.stream(at.checkpoint, "text");
  const pieces: ChangeBatch[] = [];
  while (pieces.at(-1)?.endsInTransaction !== false) pieces.push(await stream.next());
  expect(pieces.length).toBeGreaterThan(1);
  expect(pieces.flatMap(ids)).toEqual(Array.from({ length: 3000 }, (_, i) => i + 1));
  const ordinals = pieces.flatMap((piece) => [...piece.ordinal.subarray(0, piece.count)]);
  expect(ordinals).toEqual(Array.from({ length: 3000 }, (_, i) => i));
  const commits = new Set(pieces.map((piece) => piece.transactions.commitLsn[0]));
  expect(commits.size).toBe(1);
  for (const piece of pieces.slice(0, -1))
    expect(piece.resumeLsn).toBeLessThanOrEqual(piece.transactions.commitLsn[0]!);
});

test("the role's transaction_timeout does not end a transaction that is read slowly", async () => {
  await using at = await place();
  await at.sql(
    "do $$ begin execute format('alter database %I set transaction_timeout = %L', current_database(), '200ms'); end $$",
  );
  await using stream = await at.source.stream(at.checkpoint, "text");
  // More than the buffers in between hold.
  await at.sql(
    "begin; set local transaction_timeout = 0; insert into t select g, repeat('x', 1000) from generate_series(1, 50000) g; commit",
  );
  const from = performance.now();
  await stream.next();
  await waitFor("the time is over", () => performance.now() - from > 600);
  let isWhole = false;
  while (!isWhole) isWhole = !(await stream.next()).endsInTransaction;
  expect(isWhole).toBe(true);
});

test("a stream starts in the middle of a transaction if the checkpoint is there", async () => {
  await using at = await place();
  await at.sql("insert into t select g, '' from generate_series(1, 10) g; ");
  await at.sql("insert into t values (11, '')");
  await using first = await at.source.stream(at.checkpoint, "text");
  const batch = await first.next();
  const commitLsn = lsn(batch.transactions.commitLsn[0]!);
  await first[Symbol.asyncDispose]();
  await using second = await at.source.stream(
    { ...at.checkpoint, partial: { commitLsn, ordinal: 6 } },
    "text",
  );
  const seen: number[] = [];
  while (!seen.includes(11)) seen.push(...ids(await second.next()));
  expect(seen).toEqual([8, 9, 10, 11]);
});

test("a handler that throws ends the stream with its error, and receives no later message", async () => {
  await using at = await place();
  await at.sql("insert into t values (1, ''); insert into t values (2, '')");
  const failure = Promise.withResolvers<unknown>();
  let calls = 0;
  await using _client = await ReplicationClient.start(
    clientOptions(at.connection, "replication", false),
    { slot: at.slot, publications: [at.slot], startLsn: at.checkpoint.resumeLsn, form: "text" },
    {
      onMessage: () => {
        calls++;
        throw new Error("cannot take it");
      },
      onLargeMessage: () => {},
      onBytes: () => {},
      onKeepalive: () => {},
      xidBytes: () => 0,
      onFailure: failure.resolve,
    },
    { signal: AbortSignal.timeout(30_000) },
  );
  expect(String(await failure.promise)).toContain("cannot take it");
  expect(calls).toBe(1);
});

describe("a start without an answer", () => {
  async function startStalled(bounds: { signal: AbortSignal; timeoutMs?: number }): Promise<unknown> {
    await using proxy = await TcpProxy.start(server.port);
    await using at = await place();
    proxy.stallAt("START_REPLICATION");
    const connection = { ...at.connection, port: proxy.port };
    const options = { ...clientOptions(connection, "replication", false), connectionTimeoutMillis: 2_000 };
    const request = {
      slot: at.slot,
      publications: [at.slot],
      startLsn: at.checkpoint.resumeLsn,
      form: "text",
    } as const;
    const handlers = {
      onMessage: () => {},
      onLargeMessage: () => {},
      onBytes: () => {},
      onKeepalive: () => {},
      xidBytes: () => 0,
      onFailure: () => {},
    };
    const error = await ReplicationClient.start(options, request, handlers, bounds).catch((e: unknown) => e);
    await waitFor("the connection is closed", () => proxy.open === 0);
    return error;
  }

  test("is given up in time", async () => {
    const error = await startStalled({ signal: AbortSignal.timeout(30_000), timeoutMs: 300 });
    expect(describePostgresError(error, "source")).toMatchObject({
      code: "source_timeout",
      retry: "transient",
    });
  });

  test("is ended by its signal", async () => {
    const stop = new AbortController();
    const error = startStalled({ signal: stop.signal });
    await waitFor("it waits", async () => {
      const rows = await server.query(
        "select from pg_stat_activity where application_name = 'millrace replication'",
      );
      return rows.length > 0;
    });
    stop.abort(new Error("enough"));
    expect(String(await error)).toContain("enough");
  });
});

test("a silent socket is given up, with a transient error", async () => {
  await using proxy = await TcpProxy.start(server.port);
  await using at = await place(proxy.port);
  await using stream = await at.source.stream(at.checkpoint, "text");
  await at.sql("insert into t values (1, '')");
  expect(ids(await stream.next())).toEqual([1]);
  proxy.stall();
  await expect(stream.next()).rejects.toMatchObject({ code: "source_connection_lost", retry: "transient" });
});

test("a terminated walsender ends the stream with a transient error", async () => {
  await using at = await place();
  await using stream = await at.source.stream(at.checkpoint, "text");
  const next = stream.next().catch((error: unknown) => error);
  await at.sql(
    `select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '${at.slot}'`,
  );
  expect(await next).toMatchObject({ code: "source_connection_lost", retry: "transient" });
});

test("a slot that another walsender uses is a transient error that names it", async () => {
  await using at = await place();
  await using _holder = await at.source.stream(at.checkpoint, "text");
  await expect(at.source.stream(at.checkpoint, "text")).rejects.toMatchObject({
    code: "slot_active",
    retry: "transient",
  });
});

test("reports its lag during a backlog, whose end the server does not announce", async () => {
  await using at = await place();
  await at.sql("insert into t select g, repeat('x', 2000) from generate_series(1, 10000) g");
  await at.sql("insert into t select g, repeat('x', 2000) from generate_series(10001, 20000) g");
  await using stream = await at.source.stream(at.checkpoint, "binary");
  const batch = await stream.next();
  expect(batch.count).toBeGreaterThan(0);
  // Nothing is acknowledged, so both transactions count.
  expect(stream.lag().bytes).toBeGreaterThan(40_000_000);
});
