// What src/source/source.ts promises about order, repetition, acknowledgement, memory and snapshot points, tested with
// the streaming source on a real server. contract-trouble.test.ts covers stopping and errors.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Checkpoint, isDone } from "../../src/change/checkpoint.ts";
import { formatLsn } from "../../src/change/lsn.ts";
import { outcomeOf } from "../support/contract/carrying.ts";
import { begun, idsIn, never, overlap, read, type Seen, textOf } from "../support/contract/source.ts";
import { rangesAtOnce } from "../support/pipeline/ranges-at-once.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off", wal_sender_timeout: "2s" } });
});
afterAll(() => server[Symbol.asyncDispose]());

describe("a stream", () => {
  test("returns transactions in commit order, and changes in the order in which they were made", async () => {
    await using at = await begun(server);
    const wanted = await overlap(at);
    await using stream = await at.source.stream(at.checkpoint, "text");
    const { seen } = await read(stream, wanted.length);
    expect(seen.map(({ id }) => id)).toEqual([...wanted]);
    const isBehind = (a: Seen, b: Seen) =>
      b.commitLsn < a.commitLsn || (b.commitLsn === a.commitLsn && b.ordinal <= a.ordinal);
    expect(seen.filter((each, i) => i > 0 && isBehind(seen[i - 1]!, each))).toEqual([]);
  });

  test("starts at any checkpoint with the first change that is not done, at the same positions", async () => {
    await using at = await begun(server);
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

  test("reports when no more changes are repetitions, and that an LSN has been reached", async () => {
    await using at = await begun(server);
    await overlap(at);
    await using stream = await at.source.stream(at.checkpoint, "text");
    const { resumeLsn } = await read(stream, 7);
    const end = await at.logEnd();
    stream.reach(end);
    for (let reached = resumeLsn; reached < end; ) reached = (await stream.next()).resumeLsn;
    // The reader has what it asked for last. It asks for more.
    stream.next().catch(() => {});
    await stream.caughtUp;
  });

  test("lets the server discard what was acknowledged, and nothing else", async () => {
    await using at = await begun(server);
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
    // Nobody requests the next batch meanwhile.
    await waitFor("the acknowledgement", async () => (await at.slotAt()) === formatLsn(resumeLsn));
    stream.acknowledge(at.checkpoint.resumeLsn);
    await stream[Symbol.asyncDispose]();
    expect(await at.slotAt()).toBe(formatLsn(resumeLsn));
  });

  test("stops reading while nobody takes batches, and continues afterwards", async () => {
    await using at = await begun(server);
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

describe("a snapshot point", () => {
  test("contains exactly what was committed before it, whatever is committed later", async () => {
    await using at = await begun(server);
    await at.sql("insert into t select g, 'before' from generate_series(1, 100) g");
    await using point = await at.source.snapshotPoint(never);
    await at.sql("delete from t where id <= 50; insert into t values (1000, 'behind')");
    const [table] = await at.source.tables();
    const copy = at.source.readTable(table!, point, "text");
    expect(idsIn(await textOf(copy)).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
    expect(copy.rowsRead()).toBe(100);
    // The stream has everything else: all changes after the point, which the copy does not have.
    await using stream = await at.source.stream({ ...at.checkpoint, resumeLsn: point.lsn }, "text");
    expect((await stream.next()).count).toBe(51);
    // This may be repeated.
    await point[Symbol.asyncDispose]();
  });

  test("has each row in exactly one range, also when ranges are read in parallel", async () => {
    await using at = await begun(server);
    await at.sql("insert into t select g, repeat('x', 500) from generate_series(1, 3000) g");
    const [table] = await at.source.tables();
    const size = await at.source.measure(table!);
    await using point = await at.source.snapshotPoint(never);
    await at.sql("update t set v = 'moved'");
    const ranges = rangesAtOnce(size!, [], { bytes: size!.bytes / 7, lanes: 1 });
    expect(ranges.length).toBeGreaterThan(3);
    const parts = ranges.map((range) => at.source.readTable(table!, point, "text", { kind: "range", range }));
    const ids = (await Promise.all(parts.map(textOf))).flatMap(idsIn);
    expect(ids.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 3000 }, (_, i) => i + 1));
  });

  test("of a table that was rewritten since reports that instead of rows", async () => {
    await using at = await begun(server);
    await at.sql("insert into t select g, 'v' from generate_series(1, 10) g");
    const [table] = await at.source.tables();
    await using point = await at.source.snapshotPoint(never);
    await at.sql("alter table t alter id type bigint");
    const outcome = await outcomeOf("the copy", textOf(at.source.readTable(table!, point, "text")));
    expect(outcome).toMatchObject({ code: "table_changed", retry: "transient" });
  });

  test("is released with the loop that reads from it", async () => {
    await using at = await begun(server);
    await at.sql("insert into t select g, repeat('x', 1000) from generate_series(1, 20000) g");
    const [table] = await at.source.tables();
    await using point = await at.source.snapshotPoint(never);
    for await (const _ of at.source.readTable(table!, point, "text").chunks) break;
    const reading =
      "select from pg_stat_activity where datname = current_database() and state = 'active' and query ilike 'copy%'";
    await waitFor("the copy to be cancelled", async () => (await at.sql(reading)).length === 0);
    expect(idsIn(await textOf(at.source.readTable(table!, point, "text"))).length).toBe(20_000);
  });
});
