// Replays of tables that are partitioned, hashed, or told of in part; of rows whose keys are parked; and of rows whose large values the
// stream leaves out.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ReplaySpec } from "../../../../src/connector/task.ts";
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
import type { StageOptions, WebhookStage } from "../../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;

const streaming = (sql: string, options: StageOptions = {}) =>
  streamingStage(server, `replay_odd${++count}`, sql, options);

const sent = (stage: WebhookStage, name: string, keys?: ReplaySpec["keys"]) =>
  sentAgain(stage, specOf(stage, name, keys));

const partitioned = `
  create table m (id int, v text, primary key (id)) partition by range (id);
  create table m1 partition of m for values from (0) to (10);
  create table m2 partition of m for values from (10) to (20);
  insert into m select g, 'v' || g from generate_series(1, 19) g`;

test("a partitioned table is sent by its root", async () => {
  await using stage = await streaming(partitioned, { source: { partitions_as_root: true } });
  const { receiver } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  expect(await sent(stage, "m", [{ id: 3 }, { id: 13 }, { id: 33 }])).toMatchObject({
    rows: 2,
    missing: [{ id: 33 }],
  });
  expect(await sent(stage, "m")).toMatchObject({ rows: 19 });
  expect(keysThatWentBack(rowsOf(receiver, "m"))).toEqual([]);
});

test("and by its partitions, each with its own rows", async () => {
  await using stage = await streaming(partitioned);
  const { receiver } = stage;
  await waitFor(
    "the first copies",
    () => rowsOf(receiver, "m1").length + rowsOf(receiver, "m2").length === 19,
  );
  expect(await sent(stage, "m1", [{ id: 3 }, { id: 13 }])).toMatchObject({ rows: 1, missing: [{ id: 13 }] });
  expect(await sent(stage, "m2")).toMatchObject({ rows: 10 });
});

test("a hashed key is given as deliveries have it", async () => {
  const columns = [{ name: "id", action: "Include" as const, hash: {} }];
  const tables = [{ name: "m", action: "Include" as const, history_enabled: false, columns }];
  await using stage = await streaming(
    "create table m (id text primary key, v int); insert into m values ('a', 1), ('b', 2)",
    {
      source: {
        catalog: {
          name: "shop",
          default_action: "Include" as const,
          column_hashing: { algorithm: "Sha256" as const, salt: "pepper" },
          schemas: [{ name: "public", action: "Include", tables }],
        },
      },
    },
  );
  const { receiver } = stage;
  await waitFor("the first copy", () => rowsOf(receiver, "m").length === 2);
  const hash = String(rowsOf(receiver, "m").find(({ v }) => v === 2)?.id);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  expect(await sent(stage, "m", [{ id: hash }, { id: "b" }])).toMatchObject({
    rows: 1,
    missing: [{ id: "b" }],
  });
  expect(rowsOf(receiver, "m").at(-1)).toMatchObject({ id: hash, v: 2 });
});

test("tables that the stream tells too little of are refused, with what mends it", async () => {
  await using stage = await streaming(`
    create table told (id int primary key); alter table told replica identity nothing`);
  expect(await reasonOf(stage, "told")).toContain("NOTHING");
  await using silent = await streaming("create table m (id int primary key)", {
    sink: { format: { debezium: { skipped_operations: "r" } } },
  });
  expect(await reasonOf(silent, "m")).toContain("skipped_operations");
});

test("a table whose replica identity is an index has that as its key, and under load no removed row comes back", async () => {
  await using stage = await streaming(`
    create table m (id int primary key, code int not null unique, v text);
    alter table m replica identity using index m_code_key;
    insert into m select g, 1000 + g, repeat('x', 400) from generate_series(1, 400) g`);
  const { receiver } = stage;
  await waitFor("the first copy", () => rowsOf(receiver, "m").length === 400);
  expect(await sent(stage, "m", [{ code: 1007 }, { code: 7 }])).toMatchObject({
    rows: 1,
    missing: [{ code: 7 }],
  });
  receiver.requests.length = 0;
  let isOver = false;
  const load = (async () => {
    const client = await stage.sourceSession();
    for (let n = 1; !isOver; n++) {
      const code = 1001 + ((n * 7) % 400);
      await client.query(
        `delete from m where code = ${code + 1}; update m set code = code + 1000, v = '${n}' where code = ${code};
         update m set v = '${n}' where code = ${code + 2}`,
      );
      await Bun.sleep(2);
    }
    await client.end();
  })();
  await sent(stage, "m");
  await waitFor("changes behind it", () => rowsOf(receiver, "m").length > 500);
  isOver = true;
  await load;
  const source = await stage.sql<{ code: number; v: string }>("select code, v from m order by code");
  const held = () =>
    [...heldByVersion(receiver, "m", "code").values()]
      .map(({ code, v }) => ({ code: Number(code), v: String(v) }))
      .toSorted((a, b) => a.code - b.code);
  await waitFor("the receiver to hold the source", () => Bun.deepEquals(held(), source), {
    timeoutMs: 20_000,
  });
  expect(keysThatWentBack(rowsOf(receiver, "m"), "code")).toEqual([]);
});

test("a row of a parked key is parked behind it, and both arrive in order", async () => {
  await using stage = await streaming(
    "create table m (id int primary key, v text); insert into m values (1, 'a'), (2, 'b')",
    {
      sink: { on_exhausted: { park: {} }, retry: { initial_backoff_ms: 1, max_backoff_ms: 2 } },
    },
  );
  const { receiver, store } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  let isBad = true;
  receiver.script = ({ body }) => (isBad && body.includes("bad") ? 422 : 200);
  await stage.sql("update m set v = 'bad' where id = 1");
  await waitFor("it to be parked", () => store.parking.parked.length === 1);
  expect(await sent(stage, "m")).toMatchObject({ rows: 2 });
  expect(store.parking.parked.map(({ message }) => message.cause)).toEqual(["refused", "behind"]);
  await stage.sql("update m set v = 'later' where id = 1");
  await waitFor("the change to wait as well", () => store.parking.parked.length === 3);
  isBad = false;
  store.parking.ask();
  await waitFor("nothing to be parked", () => store.parking.parked.length === 0);
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  const values = rowsOf(receiver, "m")
    .filter(({ id }) => id === 1)
    .map(({ v }) => v);
  expect(values.slice(-3)).toEqual(["bad", "bad", "later"]);
  expect(keysThatWentBack(rowsOf(receiver, "m"))).toEqual([]);
});

test("a row that is changed in part amid its replay comes whole, also under another key", async () => {
  await using stage = await streaming(`
    create table m (id int primary key, n int not null, far text not null); alter table m alter far set storage external;
    insert into m select g, 0, repeat(md5(g::text), 200) from generate_series(1, 5) g`);
  const { receiver, life } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  receiver.requests.length = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  life.copiesHeld = promise;
  const before = life.copies.length;
  const replay = sent(stage, "m", [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await waitFor("the rows to be read", () => life.copies.length > before);
  await stage.sql("update m set n = 1 where id in (1, 4); update m set id = 12 where id = 2");
  await waitFor("the changes", () => rowsOf(receiver, "m").some(({ id }) => id === 12));
  resolve();
  expect(await replay).toMatchObject({ missing: [] });
  const rows = rowsOf(receiver, "m");
  const wholeOf = (id: number) =>
    rows.filter((row) => row.id === id && String(row.far).length > 1_000).length;
  expect([1, 12, 3].map(wholeOf)).toEqual([1, 1, 1]);
  // Nobody has asked for it.
  expect(wholeOf(4)).toBe(0);
  expect(keysThatWentBack(rows)).toEqual([]);
});

test("with other batches after a restart the rows come under other keys, and none is missing", async () => {
  const sql =
    "create table m (id int primary key, v int not null); insert into m select g, 0 from generate_series(1, 40) g";
  await using stage = await streaming(sql, { sink: { batch: { max_batch_size: 4 } } });
  const { receiver } = stage;
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  receiver.requests.length = 0;
  receiver.script = ({ index }) => (index < 3 ? 200 : { kind: "hang" });
  void stage.life.replay(specOf(stage, "m"), "task").catch(() => undefined);
  await waitFor("some of it", () => receiver.requests.length > 3);
  await stage.life.kill();
  receiver.script = () => 200;
  await stage.restart({ batch: { max_batch_size: 9 } });
  await stage.untilRealtime();
  await stage.life.replay(specOf(stage, "m"), "task");
  await stage.expectHeld(() => heldInOrder(receiver, "m"));
  expect(keysThatWentBack(rowsOf(receiver, "m"))).toEqual([]);
});

test("rows that are removed after they were read are not sent", async () => {
  await using stage = await streaming(
    "create table m (id int primary key, v text); insert into m select g, 'v' from generate_series(1, 9) g",
    { sink: { format: { debezium: {} } } },
  );
  const { receiver, life } = stage;
  await waitFor("the first copy", () => envelopesOf(receiver, "m").length === 9);
  receiver.requests.length = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  life.copiesHeld = promise;
  const before = life.copies.length;
  const replay = sent(stage, "m");
  await waitFor("the rows to be read", () => life.copies.length > before);
  await stage.sql("delete from m where id < 4");
  await waitFor("the removals", () => envelopesOf(receiver, "m").length === 3);
  resolve();
  expect(await replay).toMatchObject({ rows: 6 });
  expect(envelopesOf(receiver, "m").map(({ op }) => op)).toEqual([..."dddrrrrrr"]);
});
