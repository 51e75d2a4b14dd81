// Large tables go to a webhook in ranges of their pages: what is delivered and noted is not sent again, and a receiver ends with the
// source's rows, whether it goes by the order in which they arrive or by their versions. Tables of a few hundred pages stand for
// large ones.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { overlap, type PageRange } from "../../../../src/change/page-range.ts";
import type { CopyPace } from "../../../../src/pipeline/copy/copy-pace.ts";
import type { ChunkedCopy } from "../../../../src/sink/delivery/record/chunked-copy.ts";
import { moveRows, movingRows } from "../../../support/loads/moving-rows.ts";
import { pick } from "../../../support/matrix.ts";
import {
  envelopesOf,
  heldByVersion,
  heldInOrder,
  heldOfEnvelopes,
  keysThatWentBack,
  rowsOf,
} from "../../../support/oracles/webhook-oracles.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { vacuum } from "../../../support/servers/vacuumed.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { type StageOptions, WebhookStage } from "../../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const create = (
  sql: string,
  copyPace: Partial<CopyPace> = {},
  sink: NonNullable<StageOptions["sink"]> = {},
) => WebhookStage.create(server, `hook_ranges${++count}`, sql, { copyPace, sink });

/** What the record holds of the copy of `m`. */
const chunkedOf = ({ record }: WebhookStage): ChunkedCopy | undefined => record?.chunked.get("public.m");

/**
 * A life that ends when ranges are delivered and noted beside those that were, and others are left. Returns all that are, and checks
 * that none of them was read again.
 */
async function copySome(stage: WebhookStage): Promise<readonly PageRange[]> {
  const before = chunkedOf(stage);
  stage.receiver.script = () => ({ kind: "answer", status: 200, delayMs: 4 });
  await stage.start();
  const isMore = () => (chunkedOf(stage)?.rows ?? 0) > (before?.rows ?? 0);
  await waitFor("a range", isMore, { intervalMs: 1 });
  await stage.life.kill();
  stage.receiver.script = () => undefined;
  expectNotAgain(stage, before?.done ?? []);
  const done = chunkedOf(stage)!;
  expect(done.phase).toBe("open");
  expect(done.done.at(-1)?.to).not.toBeNull();
  return done.done;
}

/** This life has read none of these ranges. */
function expectNotAgain({ life }: WebhookStage, done: readonly PageRange[]): void {
  const read = life.copies.flatMap(({ part }) => (part?.kind === "range" ? [part.range] : []));
  expect(read.filter((range) => done.some((other) => overlap(range, other)))).toEqual([]);
}

const identities = [
  ["default", 1],
  ["full", 2],
] as const;

describe.each(pick(identities, ([identity]) => identity === "full"))(
  "a copy that dies again and again amid changes, under replica identity %s",
  (identity, seed) => {
    test("goes on with the ranges that are left, and the receiver ends with the source's rows", async () => {
      const rows = 800;
      await using stage = await create(movingRows("m", rows, identity), {
        rangeBytes: 100_000,
        pointHeldMs: 50,
      });
      {
        // What is out of line does not travel with a row that gets another key while it is streamed.
        await using moving = await moveRows(stage, "m", rows, seed, identity === "default");
        let done: readonly PageRange[] = [];
        for (let deaths = 0; deaths < 3; deaths++) done = await copySome(stage);
        await stage.start();
        await stage.untilRealtime();
        expectNotAgain(stage, done);
        await stage.life.kill();
        await stage.start();
        await stage.untilRealtime();
        await waitFor("many changes", () => moving.transactions > 50);
      }
      await stage.expectHeld(() => heldInOrder(stage.receiver, "m"));
      await stage.expectHeld(() => heldByVersion(stage.receiver, "m"));
      await waitFor("nothing to be incomplete", () => chunkedOf(stage)?.incomplete.isEmpty !== false);
    });
  },
);

test("in debezium form too ranges are reads that come once, and the receiver ends with the source's rows", async () => {
  const rows = 800;
  const pace = { rangeBytes: 100_000, pointHeldMs: 50 };
  await using stage = await create(movingRows("m", rows, "default"), pace, { format: { debezium: {} } });
  {
    await using _moving = await moveRows(stage, "m", rows, 4, true);
    await copySome(stage);
    const done = await copySome(stage);
    await stage.start();
    await stage.untilRealtime();
    expectNotAgain(stage, done);
    await waitFor("an insert", () => envelopesOf(stage.receiver, "m").some(({ op }) => op === "c"));
  }
  await stage.expectHeld(() => heldOfEnvelopes(stage.receiver, "m"));
  await waitFor("nothing to be incomplete", () => chunkedOf(stage)?.incomplete.isEmpty !== false);
  expect(new Set(envelopesOf(stage.receiver, "m").map(({ op }) => op))).toEqual(
    new Set(["r", "u", "d", "c"]),
  );
});

test("rows that are in none of the ranges, and of which the stream brings parts, are copied by their keys", async () => {
  const rows = 1500;
  await using stage = await create(movingRows("m", rows));
  await copySome(stage);
  // Their place is taken by rows from behind, whose values out of line stay where they are.
  await stage.sql("delete from m where id <= 30");
  await vacuum((sql) => stage.sql(sql), "m");
  await stage.sql("update m set n = n + 1 where id between 1400 and 1410");
  await stage.sql(
    "update m set id = id + 10000 where id between 1420 and 1424; delete from m where id = 1405",
  );
  const sent = rowsOf(stage.receiver, "m").length;
  await stage.start();
  await stage.untilRealtime();
  await waitFor("what is incomplete", () => stage.life.copies.some(({ part }) => part?.kind === "rows"));
  await stage.expectHeld(() => heldInOrder(stage.receiver, "m"));
  await stage.expectHeld(() => heldByVersion(stage.receiver, "m"));
  const keys = stage.life.copies.flatMap(({ part }) => (part?.kind === "rows" ? part.keys.flat() : []));
  expect(keys).toContain("1400");
  expect(keys).toContain("11424");
  expect(keys.filter((key) => Number(key) < 1400)).toEqual([]);
  // What was delivered and noted did not come again.
  const all = rowsOf(stage.receiver, "m");
  expect(all.length - sent).toBeLessThan(rows);
  expect(keysThatWentBack(all)).toEqual([]);
  await stage.sql("update m set n = n + 1, far = far || 'x' where id in (1400, 11420)");
  await stage.expectHeld(() => heldInOrder(stage.receiver, "m"));
});

test("more rows are incomplete than can be recorded: the table is copied once more", async () => {
  const rows = 1500;
  await using stage = await create(
    `create table m (id text primary key, n int, far text); alter table m alter far set storage external;
     insert into m select lpad(g::text, 800, '0'), 0, repeat('f', 2100) from generate_series(1, ${rows}) g`,
  );
  await copySome(stage);
  await stage.sql("update m set n = 1");
  await stage.start();
  await stage.untilRealtime();
  await waitFor("the copy's end", () => chunkedOf(stage) === undefined, { timeoutMs: 30_000 });
  const again = rowsOf(stage.receiver, "m").slice(-rows);
  expect(new Set(again.map(({ id }) => id)).size).toBe(rows);
  expect(again.every(({ n, far }) => n === 1 && String(far).length === 2100)).toBe(true);
});

test("no transaction at the source is open for much longer than a point is held, and versions never go back", async () => {
  await using stage = await create(movingRows("m", 2500), { rangeBytes: 20_000, pointHeldMs: 50 });
  const begunAt = performance.now();
  {
    await using _moving = await moveRows(stage, "m", 2500, 3, true);
    await stage.start();
    let longestMs = 0;
    const isStreaming = async () => {
      const [{ ms = 0 } = {}] = await stage.sql<{ ms: number }>(
        "select (extract(epoch from max(now() - xact_start)) * 1000)::float8 as ms from pg_stat_activity where application_name like 'millrace%'",
      );
      longestMs = Math.max(longestMs, ms);
      return stage.life.phase === "realtime";
    };
    await waitFor("the stream", isStreaming, { timeoutMs: 30_000, intervalMs: 20 });
    expect(longestMs).toBeLessThan((performance.now() - begunAt) / 2);
  }
  expect(new Set(stage.life.copies.map(({ lsn }) => lsn)).size).toBeGreaterThan(2);
  await stage.expectHeld(() => heldInOrder(stage.receiver, "m"));
  await stage.expectHeld(() => heldByVersion(stage.receiver, "m"));
  expect(keysThatWentBack(rowsOf(stage.receiver, "m"))).toEqual([]);
});

test("a receiver that takes its time gets smaller ranges: the source holds nothing for long", async () => {
  const sql = `create table m (id int primary key, v text);
    insert into m select g, repeat(md5(g::text), 58) from generate_series(1, 8000) g; alter table m alter v set storage external`;
  const copyPace = { rangeBytes: 100_000_000, firstRangeBytes: 50_000, rangeMs: 200, pointHeldMs: 200 };
  const limits = { snapshot: { max_buffer_rows: 50 } };
  await using stage = await WebhookStage.create(server, "hook_slow", sql, { copyPace, limits });
  stage.receiver.script = () => ({ kind: "answer", status: 200, delayMs: 20 });
  const beganMs = performance.now();
  await stage.start();
  let longestMs = 0;
  const isOver = async () => {
    const [held] = await stage.sql<{ ms: number }>(
      "select coalesce(max(extract(epoch from clock_timestamp() - xact_start)) * 1000, 0)::int as ms from pg_stat_activity " +
        "where backend_xmin is not null and pid <> pg_backend_pid()",
    );
    longestMs = Math.max(longestMs, held?.ms ?? 0);
    return stage.life.phase === "realtime";
  };
  await waitFor("the copy", isOver, { timeoutMs: 50_000, intervalMs: 10 });
  expect(longestMs).toBeGreaterThan(0);
  expect(longestMs).toBeLessThan((performance.now() - beganMs) / 3);
  await stage.expectHeld(() => heldByVersion(stage.receiver, "m"));
});
