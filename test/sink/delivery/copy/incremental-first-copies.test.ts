// Tables that come to a connector that sends to a webhook already: their first copies go beside the stream, which brings changes of these
// tables too. What arrives is all that a receiver needs, whether it goes by the order of arrival or by versions.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { toMillraceError } from "../../../../src/errors/millrace-error.ts";
import { moveRows, movingRows } from "../../../support/loads/moving-rows.ts";
import {
  type HeldRows,
  heldByVersion,
  heldInOrder,
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

const rows = 800;
const inRanges = { rangeBytes: 200_000, pointHeldMs: 20 };

async function streaming(database: string): Promise<WebhookStage> {
  const stage = await WebhookStage.create(server, database, "create table other (id int primary key)", {
    copyPace: inRanges,
  });
  await stage.start();
  await stage.untilRealtime();
  return stage;
}

const copyOf = (stage: WebhookStage, table: string) => stage.record?.copied.get(`public.${table}`)?.lsn ?? 0n;

test("a large table amid its changes, whatever dies", async () => {
  await using stage = await streaming("hook_first");
  const { receiver } = stage;
  const { promise, resolve: release } = Promise.withResolvers<void>();
  stage.life.copiesHeld = promise;
  await stage.sql(movingRows("m", rows));
  await waitFor("the table to be read", () => stage.life.copies.length > 1);
  let known = 0;
  {
    await using _moving = await moveRows(stage, "m", rows, 1, true);
    await stage.sql("insert into other values (1); update m set n = -7 where id = 3");
    await waitFor(
      "the changes",
      () => rowsOf(receiver, "other").length > 0 && rowsOf(receiver, "m").some(({ n }) => n === -7),
    );
    receiver.script = () => ({ kind: "answer", status: 200, delayMs: 20 });
    release();
    const delivered = () => stage.record?.chunked.get("public.m")?.rows ?? 0;
    await waitFor("some ranges", () => delivered() > 100);
    expect(copyOf(stage, "m")).toBe(0n);
    await stage.life.kill();
    known = delivered();
    const ranges = stage.record?.chunked.get("public.m")?.done ?? [];
    receiver.script = () => undefined;
    await stage.start();
    await stage.untilRealtime();
    await waitFor("the copy", () => copyOf(stage, "m") > 0n);
    const again = stage.life.copies.filter(({ table, part }) => {
      if (table !== "m" || part?.kind !== "range") return false;
      return ranges.some(({ from, to }) => part.range.from >= from && (to === null || part.range.from < to));
    });
    expect(again).toEqual([]);
  }
  expect(known).toBeGreaterThan(100);
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  await stage.expectHeld(() => heldByVersion(receiver, "m"));
  await stage.untilChunksPassed();
  // A run that follows has nothing to copy.
  await stage.life.stop();
  await stage.start();
  await stage.sql("update m set n = -8 where id = 4");
  await stage.expectHeld(() => heldByVersion(receiver, "m"));
  expect(stage.life.copies).toEqual([]);
});

test("a small table, one that is altered meanwhile, one whose name another takes, and one without a key", async () => {
  await using stage = await streaming("hook_first_kinds");
  const { receiver, life } = stage;
  const { promise, resolve: release } = Promise.withResolvers<void>();
  life.copiesHeld = promise;
  await stage.sql(`create table m (id int primary key, v text); insert into m select g, 'v' || g from generate_series(1, 300) g;
    create table named (id int primary key); insert into named select generate_series(1, 5000);
    create table two (a int, b int, v text, primary key (a, b)); insert into two select g, g, 'v' from generate_series(1, 50) g`);
  await waitFor("the tables to be read", () => life.copies.length >= 3);
  const changed = stage.sql(
    "update m set v = 'later' where id < 5; delete from m where id = 9; alter table m add w int default 7; insert into m values (1000, 'new', 8)",
  );
  await stage.sql("update two set v = 'later' where a = 7; delete from two where a = 8");
  const taken = stage.sql(
    "drop table named; create table named (id int primary key); insert into named values (-1)",
  );
  // A table that goes amid a look ends the run, and the next takes it up.
  const goOn = async () => {
    if (stage.life.failure === null) return;
    expect(toMillraceError(await stage.life.ended())).toMatchObject({ code: "table_changed" });
    await stage.start();
    stage.life.copiesHeld = promise;
  };
  const until = async (what: string, isSo: () => boolean) => {
    const probe = async () => {
      await goOn();
      return isSo();
    };
    await waitFor(what, probe, { timeoutMs: 50_000 });
  };
  await until("a change", () => rowsOf(receiver, "two").length === 2);
  release();
  await Promise.all([changed, taken]);
  await until("the other table", () => rowsOf(receiver, "named").some(({ id }) => id === -1));
  await waitFor("the copies", () => copyOf(stage, "m") > 0n && copyOf(stage, "two") > 0n);
  // A copy that is made before the stream brings the alteration counts: rows that were delivered are not sent again.
  const withDefault = (held: HeldRows) => new Map([...held].map(([id, row]) => [id, { w: 7, ...row }]));
  await stage.expectHeld(() => withDefault(heldInOrder(receiver, "m")));
  await stage.expectHeld(() => withDefault(heldByVersion(receiver, "m")));
  expect(keysThatWentBack(rowsOf(receiver, "two"), "a")).toEqual([]);
  const two = heldInOrder(receiver, "two", "a");
  expect([two.size, two.get(7), two.has(8)]).toEqual([49, { a: 7, b: 7, v: "later" }, false]);
  await stage.sql("create table keyless (v text); insert into keyless values ('a'), ('a')");
  await waitFor("the rows", () => rowsOf(receiver, "keyless").length === 2);
});

/** Holds what is copied from here on until it is called. */
function hold({ life }: WebhookStage): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  life.copiesHeld = promise;
  return resolve;
}

async function untilRead({ life }: WebhookStage, table: string): Promise<void> {
  const before = life.copies.length;
  await waitFor("the copy", () => life.copies.slice(before).some((copy) => copy.table === table));
}

test("changes of a connector's only table that come again come before its copy", async () => {
  await using stage = await WebhookStage.create(server, "hook_only_table", "select 1");
  await stage.start();
  await stage.untilRealtime();
  hold(stage);
  const reading = untilRead(stage, "m");
  await stage.sql("create table m (id int primary key); insert into m select generate_series(1, 100)");
  await reading;
  await stage.sql("insert into m values (1000)");
  await waitFor("the change", () => rowsOf(stage.receiver, "m").length === 1);
  await stage.life.kill();
  await stage.start();
  const release = hold(stage);
  await stage.untilRealtime();
  await stage.sql("insert into m values (1001)");
  await waitFor("the other change", () => rowsOf(stage.receiver, "m").length === 2);
  release();
  await stage.expectHeld(() => heldInOrder(stage.receiver, "m"));
  await stage.expectHeld(() => heldByVersion(stage.receiver, "m"));
});

test("changes of the first tables of a connector do not wait for their copies", async () => {
  await using stage = await WebhookStage.create(server, "hook_first_tables", "select 1");
  await stage.start();
  await stage.untilRealtime();
  const release = hold(stage);
  const reading = untilRead(stage, "m");
  await stage.sql(
    "create table other (id serial primary key); create table m (id int primary key); insert into m values (1)",
  );
  await reading;
  await stage.sql("insert into other default values");
  await waitFor("the other table", () => rowsOf(stage.receiver, "other").length > 0);
  release();
  await stage.expectHeld(() => heldInOrder(stage.receiver, "m"));
});
