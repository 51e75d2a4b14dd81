// Snapshot tasks to a webhook beside the stream: it goes on, for the table that is copied too. What arrives from the task's beginning on
// is all that a receiver needs to have the source's rows, whether it goes by the order of arrival or by versions.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
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
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookStage } from "../../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rows = 800;
/** Each few pages are a range, as of a point of their own where one can be had. */
const inRanges = { rangeBytes: 200_000, pointHeldMs: 20 };

async function streaming(sql: string, copyPace = inRanges): Promise<WebhookStage> {
  const stage = await WebhookStage.create(server, `hook_beside${++count}`, sql, { copyPace });
  await stage.start();
  await stage.untilRealtime();
  return stage;
}

/** Holds what is copied until it is called. */
function hold({ life }: WebhookStage): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  life.copiesHeld = promise;
  return resolve;
}

const identities = [
  ["default", 1],
  ["full", 2],
] as const;

describe.each(pick(identities, ([identity]) => identity === "default"))(
  "amid changes, under replica identity %s",
  (identity, seed) => {
    test("changes arrive while a task is held up, and what arrives is the source in the end", async () => {
      await using stage = await streaming(
        `${movingRows("m", rows, identity)}; create table other (id int primary key)`,
      );
      const { receiver, life, database } = stage;
      await stage.expectHeld(() => heldInOrder(receiver, "m"));
      // The receiver has lost all that it had.
      receiver.requests.length = 0;
      const before = life.copies.length;
      const release = hold(stage);
      const task = life.snapshot(database, "m");
      await waitFor("the copy to be read", () => life.copies.length > before);
      {
        await using _moving = await moveRows(stage, "m", rows, seed, identity === "default");
        await stage.sql("insert into other values (1); update m set n = -7 where id = 3");
        await waitFor(
          "the changes",
          () => rowsOf(receiver, "other").length > 0 && rowsOf(receiver, "m").some(({ n }) => n === -7),
        );
        release();
        expect(await task).toBeNull();
      }
      await stage.expectHeld(() => heldInOrder(receiver, "m"));
      await stage.expectHeld(() => heldByVersion(receiver, "m"));
      expect(keysThatWentBack(rowsOf(receiver, "m"))).toEqual([]);
      expect(new Set(life.copies.slice(before).map(({ lsn }) => lsn)).size).toBeGreaterThan(1);
      // What went out of a row in part went out whole as well.
      const owed = life.copies.flatMap(({ part }) => (part?.kind === "rows" ? part.keys : []));
      expect(owed.length > 0).toBe(identity === "default");
    });
  },
);

test("what was delivered of a large table when the service died is not read again, and what arrives is the source in the end", async () => {
  // Many more than are delivered until it is known that some are.
  const many = 3 * rows;
  await using stage = await streaming(movingRows("m", many));
  const { receiver, database } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  // The receiver has lost all that it had.
  receiver.requests.length = 0;
  const copyOf = () => stage.record?.chunked.get("public.m");
  {
    await using moving = await moveRows(stage, "m", many, 3, true);
    const areSome = () => copyOf()?.phase === "again" && (copyOf()?.rows ?? 0) > 100;
    // The others are on their way when it dies.
    receiver.script = () => ({ kind: "answer", status: 200, delayMs: areSome() ? 60_000 : 20 });
    void stage.life.snapshot(database, "m");
    await waitFor("some ranges", areSome);
    await stage.life.kill();
    const delivered = copyOf();
    expect(delivered?.done.length).toBeGreaterThan(0);
    const { transactions } = moving;
    await waitFor("changes meanwhile", () => moving.transactions > transactions + 20);
    receiver.script = () => undefined;
    await stage.start();
    await stage.untilRealtime();
    expect(await stage.life.snapshot(database, "m")).toBeNull();
    const read = stage.life.copies.flatMap(({ part }) => (part?.kind === "range" ? [part.range] : []));
    expect(read.length).toBeGreaterThan(0);
    const again = read.filter(({ from }) =>
      delivered?.done.some((range) => from >= range.from && (range.to === null || from < range.to)),
    );
    expect(again).toEqual([]);
  }
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  await stage.expectHeld(() => heldByVersion(receiver, "m"));
  await stage.untilChunksPassed();
});

test("a copy that the receiver is slow to take keeps no change waiting, and dies with the service: what comes again is as it was", async () => {
  const delayMs = 150;
  await using stage = await streaming(
    `create table m (id int primary key, v text); create table other (id int primary key);
     insert into m select g, repeat('x', 100) from generate_series(1, 20000) g`,
    { rangeBytes: 500_000, pointHeldMs: 60_000 },
  );
  const { receiver, database } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  const before = receiver.requests.length;
  receiver.script = () => ({ kind: "answer", status: 200, delayMs });
  const task = stage.life.snapshot(database, "m");
  await waitFor("much of the copy", () => receiver.requests.length > before + 20);
  const waits: number[] = [];
  for (let id = 1; id <= 5; id++) {
    const begunAt = performance.now();
    await stage.sql(`insert into other values (${id}); update m set v = 'new' where id = ${id * 4_000}`);
    const arrived = () =>
      rowsOf(receiver, "other").some((row) => row.id === id) &&
      rowsOf(receiver, "m").some((row) => row.id === id * 4_000 && row.v === "new");
    await waitFor("the changes", arrived, { intervalMs: 5 });
    waits.push(performance.now() - begunAt);
  }
  // One attempt of the copy's, and their own; the first of them waits until time ends its window.
  expect(Math.max(...waits)).toBeLessThan(10 * delayMs);
  expect(await Promise.race([task, Promise.resolve("not yet")])).toBe("not yet");
  expect(receiver.requests.length - before).toBeLessThan(380);

  // Changes that are delivered and not noted come again, with the versions and under the keys that they had.
  await stage.sql("update m set v = 'last' where id % 100 = 0; insert into other values (6)");
  await waitFor("some of them", () => rowsOf(receiver, "m").some(({ v }) => v === "last"));
  await stage.life.kill();
  receiver.script = () => undefined;
  await stage.start();
  await stage.untilRealtime();
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  await stage.expectHeld(() => heldByVersion(receiver, "m"));
  const bodies = new Map<string, string>();
  for (const { headers, body, path } of receiver.requests) {
    const key = `${path} ${headers["idempotency-key"]}`;
    expect(bodies.get(key) ?? body).toBe(body);
    bodies.set(key, body);
  }
  expect(await stage.life.snapshot(database, "m")).toBeNull();
  await stage.expectHeld(() => heldByVersion(receiver, "m"));
  expect(stage.record?.versionSteps.length).toBeLessThan(2);
});

test("a table that is altered or emptied amid its task begins anew; one without a key comes again", async () => {
  await using stage = await streaming(
    `create table m (id int primary key, v text); insert into m select g, 'v' || g from generate_series(1, 2000) g;
     create table keyless (v text); insert into keyless values ('a'), ('b')`,
  );
  const { receiver, life, database } = stage;
  const amid = async (sql: string) => {
    const before = life.copies.length;
    const release = hold(stage);
    const task = life.snapshot(database, "m");
    await waitFor("the copy to be read", () => life.copies.length > before);
    const locked = stage.sql(sql);
    release();
    await locked;
    return await task;
  };
  receiver.requests.length = 0;
  expect(await amid("update m set v = 'new' where id < 5")).toBeNull();
  await amid("truncate m; insert into m values (1, 'again')");
  await waitFor("the row", () => heldInOrder(receiver, "m").get(1)?.v === "again");
  await amid("alter table m add w int default 7; insert into m values (2, 'two', 8)");
  await waitFor("the other row", () => heldInOrder(receiver, "m").get(2)?.w === 8);
  expect(await life.snapshot(database, "m")).toBeNull();
  for (const [id, row] of [
    [1, { id: 1, v: "again", w: 7 }],
    [2, { id: 2, v: "two", w: 8 }],
  ] as const) {
    expect(heldByVersion(receiver, "m").get(id)).toEqual(row);
  }
  expect(await life.snapshot(database, "keyless")).toBeNull();
  expect(rowsOf(receiver, "keyless").length).toBe(2);
});

test("in debezium form rows of a task are reads, and changes meanwhile are what they are", async () => {
  await using stage = await WebhookStage.create(
    server,
    `hook_beside${++count}`,
    movingRows("m", rows, "default"),
    {
      copyPace: inRanges,
      sink: { format: { debezium: {} } },
    },
  );
  await stage.start();
  await stage.untilRealtime();
  const { receiver, life, database } = stage;
  const envelopes = () => envelopesOf(receiver, "m");
  const held = () => heldOfEnvelopes(receiver, "m");
  await stage.expectHeld(held);
  receiver.requests.length = 0;
  const release = hold(stage);
  const before = life.copies.length;
  const task = life.snapshot(database, "m");
  await waitFor("the copy to be read", () => life.copies.length > before);
  await stage.sql("update m set n = 5 where id % 3 = 0; delete from m where id % 50 = 1");
  await waitFor("the changes", () => envelopes().some(({ op }) => op === "d"));
  release();
  expect(await task).toBeNull();
  await stage.expectHeld(held);
  expect(new Set(envelopes().map(({ op }) => op))).toEqual(new Set(["u", "d", "r"]));
});
