// Replays to a webhook beside the stream: rows are sent again as they are now, each with a version above all that it had, and no change is
// overtaken, whatever happens meanwhile.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ReplaySpec } from "../../../../src/connector/task.ts";
import { moveRows, movingRows } from "../../../support/loads/moving-rows.ts";
import { pick } from "../../../support/matrix.ts";
import {
  envelopesOf,
  heldByVersion,
  heldInOrder,
  keysThatWentBack,
  rowsOf,
} from "../../../support/oracles/webhook-oracles.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { reasonOf, sentAgain, specOf, streamingStage } from "../../../support/webhook/replay-stage.ts";
import type { StageOptions } from "../../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
const rows = 800;
/** The load leaves these alone. How many of the others are left out, as their changes come, depends on how busy the machine is. */
const settledRows = 50;
/** Each few pages are a range, as of a point of their own where one can be had. */
const inRanges = { rangeBytes: 200_000, pointHeldMs: 20 };

const streaming = (sql: string, options: StageOptions = {}) =>
  streamingStage(server, `replay${++count}`, sql, { copyPace: inRanges, ...options });

describe("by keys", () => {
  test("rows come again with a version above all that they had, a key without a row is told, and nothing else is sent", async () => {
    await using stage = await streaming(
      "create table m (id int primary key, v text); insert into m values (1, 'a'), (2, 'b'), (3, 'c')",
    );
    const { receiver } = stage;
    await stage.expectHeld(() => heldInOrder(receiver, "m"));
    await stage.sql("update m set v = 'later' where id = 2");
    await waitFor("the change", () => rowsOf(receiver, "m").some(({ v }) => v === "later"));
    const before = rowsOf(receiver, "m");
    const newest = Math.max(...before.map(({ _sm_version: version }) => Number(version)));
    const copied = JSON.stringify(stage.record?.copied.get("public.m")?.identity);
    const spec = specOf(stage, "m", [{ id: 2 }, { id: 99 }, { id: "1" }, { id: 1 }]);
    const result = await sentAgain(stage, spec);
    expect(result).toMatchObject({ rows: 2, missing: [{ id: 99 }] });
    const again = rowsOf(receiver, "m").slice(before.length);
    expect(again.map(({ id, v }) => [id, v])).toEqual([
      [1, "a"],
      [2, "later"],
    ]);
    for (const { _sm_version: version } of again) expect(Number(version)).toBeGreaterThan(newest);
    expect(JSON.stringify(stage.record?.copied.get("public.m")?.identity)).toBe(copied!);
    await stage.untilChunksPassed();
    // What comes later has a version above it.
    await stage.sql("update m set v = 'last' where id = 2; delete from m where id = 1");
    await stage.expectHeld(() => heldByVersion(receiver, "m"));
    expect(keysThatWentBack(rowsOf(receiver, "m"))).toEqual([]);
  });

  test("a key stands for one body: an attempt that reads the rows again has other keys, and so has another task", async () => {
    await using stage = await streaming(
      "create table m (id int primary key, v text); insert into m select g, 'v' from generate_series(1, 30) g",
      { sink: { batch: { max_batch_size: 7 } } },
    );
    const { receiver } = stage;
    await stage.expectHeld(() => heldInOrder(receiver, "m"));
    const spec = specOf(
      stage,
      "m",
      Array.from({ length: 20 }, (_, i) => ({ id: 20 - i })),
    );
    const keysOf = async (id: string) => {
      const from = receiver.requests.length;
      await sentAgain(stage, spec, id);
      return receiver.requests.slice(from).map(({ headers }) => headers["idempotency-key"]);
    };
    const id = "01980a4e-5f0c-7000-8a51-2f9de1c0a7b3";
    const first = await keysOf(id);
    expect(first).toHaveLength(3);
    await stage.life.kill();
    await stage.start();
    await stage.untilRealtime();
    const second = await keysOf(id);
    const other = await keysOf("01980a4e-5f0c-7000-8a51-2f9de1c0a7b4");
    expect(new Set([...first, ...second, ...other]).size).toBe(9);
  });

  test("keys of all kinds of types, of several columns and of odd names are read as deliveries show them", async () => {
    await using stage = await streaming(`
      create table composite (b text, a bigint, v int, primary key (a, b));
      insert into composite values ('x', 9007199254740993, 1), ('y', 2, 2);
      create table uuids (id uuid primary key, v int);
      insert into uuids values ('0195d3ab-0000-7000-8000-000000000001', 1);
      create table times (id timestamptz primary key, v int);
      insert into times values ('2026-01-31 12:00:00.123456+00', 1);
      create table numbers (id numeric(10, 2) primary key, v int);
      insert into numbers values (1.50, 1);
      create table bytes (id bytea primary key, v int);
      insert into bytes values ('\\xdeadbeef', 1);
      create table flags (id boolean primary key, v int);
      insert into flags values (true, 1);
      create table "Odd ""table" ("Id ""x" varchar(5) primary key, "value" int, place int);
      insert into "Odd ""table" values ('a''"', 1, 2), ('b', 3, 4)`);
    const { receiver } = stage;
    const cases: readonly [string, NonNullable<ReplaySpec["keys"]>[number]][] = [
      ["composite", { a: "9007199254740993", b: "x" }],
      ["uuids", { id: "0195D3AB-0000-7000-8000-000000000001" }],
      ["times", { id: "2026-01-31T12:00:00.123456Z" }],
      ["numbers", { id: "1.5" }],
      ["numbers", { id: 1.5 }],
      ["bytes", { id: "3q2+7w==" }],
      ["bytes", { id: "\\xdeadbeef" }],
      ["flags", { id: true }],
      ['Odd "table', { 'Id "x': "a'\"" }],
    ];
    await waitFor("the first copies", () => receiver.deduplicated.length >= 7);
    for (const [name, key] of cases) {
      const before = receiver.deduplicated.length;
      expect([name, await sentAgain(stage, specOf(stage, name, [key]))]).toMatchObject([
        name,
        { rows: 1, missing: [] },
      ]);
      expect(receiver.deduplicated.length).toBe(before + 1);
    }
  });

  test("what is no key of the table is refused, with the member that is wrong", async () => {
    await using stage = await streaming(`
      create table m (id int primary key, v text); insert into m values (1, 'a');
      create table composite (a uuid, b varchar(3), primary key (a, b));
      create table keyless (v text); create table hidden (id int primary key)`);
    const uuid = "0195d3ab-0000-7000-8000-000000000001";
    expect(await reasonOf(stage, "m", [{ id: 1 }, { id: 1, v: "a" }])).toStartWith(
      "keys[1].v: the key has no such column",
    );
    expect(await reasonOf(stage, "m", [{ id: "x" }])).toStartWith(
      "keys[0].id: the value does not fit the type integer",
    );
    expect(await reasonOf(stage, "m", [{ id: true }])).toStartWith("keys[0].id: expected a text");
    expect(await reasonOf(stage, "m", [{ id: 2 ** 60 }])).toContain("give it as a text");
    expect(await reasonOf(stage, "composite", [{ a: uuid }])).toStartWith("keys[0].b: required");
    const many = Array.from({ length: 900 }, () => ({ a: uuid, b: "abc" }));
    expect(await reasonOf(stage, "composite", [...many, { a: uuid, b: "abcd" }])).toStartWith(
      "keys[900].b: the value does not fit",
    );
    expect(await reasonOf(stage, "composite", [...many, { a: "7", b: "abc" }])).toStartWith(
      "keys[900].a: the value does not fit",
    );
    expect(await reasonOf(stage, "keyless", [{ v: "a" }])).toContain("has no key");
    expect(await reasonOf(stage, "keyless")).toContain("has no key");
    expect(await reasonOf(stage, "nothing", [{ id: 1 }])).toContain("does not exist at the source");
  });
});

describe("the whole table", () => {
  const identities = [
    ["default", 1],
    ["full", 2],
  ] as const;
  test.each(pick(identities, ([identity]) => identity === "default"))(
    "under load, replica identity %s: what arrives is the source, and no key goes back",
    async (identity, seed) => {
      await using stage = await streaming(movingRows("m", rows, identity));
      const { receiver } = stage;
      await stage.expectHeld(() => heldInOrder(receiver, "m"));
      // The receiver has lost all that it had.
      receiver.requests.length = 0;
      {
        await using moving = await moveRows(stage, "m", rows, seed, identity === "default");
        const { transactions } = moving;
        const result = await sentAgain(stage, specOf(stage, "m"));
        expect(result?.rows).toBeGreaterThanOrEqual(settledRows);
        await waitFor("changes behind it", () => moving.transactions > transactions + 50);
      }
      await stage.expectHeld(() => heldInOrder(receiver, "m"));
      await stage.expectHeld(() => heldByVersion(receiver, "m"));
      expect(keysThatWentBack(rowsOf(receiver, "m"))).toEqual([]);
      await stage.untilChunksPassed();
    },
  );

  test("killed amid it: the same task goes on with what is missing, and what arrives is the source", async () => {
    await using stage = await streaming(movingRows("m", rows));
    const { receiver } = stage;
    await stage.expectHeld(() => heldInOrder(receiver, "m"));
    receiver.requests.length = 0;
    const copyOf = () => stage.record?.chunked.get("public.m");
    {
      await using _moving = await moveRows(stage, "m", rows, 3, true);
      const areSome = () => (copyOf()?.rows ?? 0) > 100;
      // The others are on their way when it dies.
      receiver.script = () => ({ kind: "answer", status: 200, delayMs: areSome() ? 3_000 : 20 });
      void stage.life.replay(specOf(stage, "m"), "task").catch(() => undefined);
      await waitFor("some ranges", areSome);
      await stage.life.kill();
      const done = copyOf()?.done ?? [];
      receiver.script = () => undefined;
      await stage.start();
      await stage.untilRealtime();
      expect((await sentAgain(stage, specOf(stage, "m"), "task"))?.rows).toBeGreaterThanOrEqual(settledRows);
      const read = stage.life.copies.flatMap(({ part }) => (part?.kind === "range" ? [part.range] : []));
      const again = read.filter(({ from }) =>
        done.some((d) => from >= d.from && (d.to === null || from < d.to)),
      );
      expect(again).toEqual([]);
      // Another task begins anew.
      await sentAgain(stage, specOf(stage, "m"), "another");
      expect(stage.life.copies.some(({ part }) => part?.kind === "range" && part.range.from === 0)).toBe(
        true,
      );
    }
    await stage.expectHeld(() => heldInOrder(receiver, "m"));
    await stage.expectHeld(() => heldByVersion(receiver, "m"));
    await stage.untilChunksPassed();
  });

  test("neither a TRUNCATE nor a boundary is sent, and rows are reads in debezium's form", async () => {
    await using stage = await streaming(
      "create table m (id int primary key, v text); insert into m values (1, 'a'), (2, 'b')",
      { sink: { format: { debezium: {} } } },
    );
    const { receiver } = stage;
    await waitFor("the first copy", () => envelopesOf(receiver, "m").length === 2);
    expect(await sentAgain(stage, specOf(stage, "m"))).toMatchObject({ rows: 2, missing: [] });
    expect(envelopesOf(receiver, "m").map(({ op }) => op)).toEqual(["r", "r", "r", "r"]);
  });
});
