// Copies that the stream waits for, of tables of which it does not tell which rows it touches, or not all states of them. Each row arrives
// as often as the source has it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { pick } from "../../../support/matrix.ts";
import { envelopesOf, heldByVersion, heldInOrder, rowsOf } from "../../../support/oracles/webhook-oracles.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { type StageOptions, WebhookStage } from "../../../support/webhook/webhook-stage.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

let count = 0;
async function streaming(sql: string, options: StageOptions = {}): Promise<WebhookStage> {
  const tables = `create table other (id serial primary key); ${sql}`;
  const stage = await WebhookStage.create(server, `hook_waiting${++count}`, tables, options);
  await stage.start();
  await stage.untilRealtime();
  return stage;
}

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

/** A change of another table arrives, while a copy is held. */
async function expectOthersGoOn(stage: WebhookStage): Promise<void> {
  const before = rowsOf(stage.receiver, "other").length;
  await stage.sql("insert into other default values");
  await waitFor("the other table", () => rowsOf(stage.receiver, "other").length > before);
}

/** Rows as text, each as often as it is there, by the order of arrival or by versions. */
function bagOf({ receiver }: WebhookStage, table: string, isByVersion = false): readonly string[] {
  const rows = rowsOf(receiver, table);
  const ordered = isByVersion ? rows.toSorted((a, b) => Number(a._sm_version) - Number(b._sm_version)) : rows;
  const bag: string[] = [];
  for (const { _sm_version: _, _sm_deleted: isDeleted, ...columns } of ordered) {
    const text = JSON.stringify(columns);
    if (!isDeleted) bag.push(text);
    else if (bag.includes(text)) bag.splice(bag.indexOf(text), 1);
  }
  return bag.toSorted();
}

async function expectSource(stage: WebhookStage, table: string): Promise<void> {
  const rows = await stage.sql<{ row: object }>(`select row_to_json(t) as row from ${table} t`);
  const wanted = rows.map(({ row }) => JSON.stringify(row)).toSorted();
  await waitFor("the rows", () => bagOf(stage, table).length === wanted.length).catch(() => {});
  expect(bagOf(stage, table)).toEqual(wanted);
  expect(bagOf(stage, table, true)).toEqual(wanted);
}

const identities = [
  ["default", ""],
  ["full", "; delete from m where a in (3, 301)"],
] as const;

describe.each(pick(identities, ([identity]) => identity === "full"))(
  "a task of a table without a key, under replica identity %s",
  (identity, removal) => {
    test("has what was committed before its point, and the stream brings the rest", async () => {
      await using stage = await streaming(
        `create table m (a int, b text); alter table m replica identity ${identity};
       insert into m select g / 2, 'v' from generate_series(1, 600) g`,
      );
      const { life, receiver, database } = stage;
      await expectSource(stage, "m");
      receiver.requests.length = 0;
      const release = hold(stage);
      const reading = untilRead(stage, "m");
      const task = life.snapshot(database, "m");
      await reading;
      await stage.sql(`insert into m values (1000, 'new'), (1, 'v'), (1, 'v') ${removal}`);
      await stage.sql("insert into other default values");
      release();
      expect(await task).toBeNull();
      await expectSource(stage, "m");
      await waitFor("the other table", () => rowsOf(receiver, "other").length === 1);
      // The next one has what came meanwhile.
      receiver.requests.length = 0;
      expect(await life.snapshot(database, "m")).toBeNull();
      await expectSource(stage, "m");
    });
  },
);

test("a task of a table with its identity by an index has what was committed before its point", async () => {
  await using stage = await streaming(
    `create table m (id int primary key, code int not null unique, v text); alter table m replica identity using index m_code_key;
     insert into m select g, g + 5000, 'v' from generate_series(1, 600) g`,
  );
  const { life, receiver, database } = stage;
  receiver.requests.length = 0;
  const release = hold(stage);
  const reading = untilRead(stage, "m");
  const task = life.snapshot(database, "m");
  await reading;
  await stage.sql(
    "update m set v = 'later' where id < 5; delete from m where id = 9; insert into m values (700, 9, 'new')",
  );
  release();
  expect(await task).toBeNull();
  const wanted = await stage.sql<{ row: { code: number } }>("select row_to_json(m) as row from m");
  const held = () => heldInOrder(receiver, "m", "code");
  await waitFor("the rows", () => held().size === wanted.length && held().has(9));
  for (const { row } of wanted) {
    expect(held().get(row.code)).toEqual(row);
    expect(heldByVersion(receiver, "m", "code").get(row.code)).toEqual(row);
  }
});

test.each(pick(["default", "full"], (identity) => identity === "default"))(
  "a table without a key comes amid its changes, under replica identity %s, and the service dies",
  async (identity) => {
    await using stage = await streaming("");
    const { receiver } = stage;
    receiver.script = ({ path }) => ({ kind: "answer", status: 200, delayMs: path.endsWith("/m") ? 25 : 0 });
    await stage.sql(
      `create table m (a int); alter table m replica identity ${identity}; insert into m select generate_series(1, 4000)`,
    );
    let last = 4000;
    let isOver = false;
    const inserting = (async () => {
      while (!isOver) await stage.sql(`insert into m values (${++last}); select pg_sleep(0.005)`);
    })();
    const copyOf = () => stage.record?.copied.get("public.m")?.lsn ?? 0n;
    await waitFor("some of the copy", () => rowsOf(receiver, "m").length > 500);
    expect(copyOf()).toBe(0n);
    await stage.life.kill();
    receiver.script = () => undefined;
    await stage.start();
    await waitFor("the copy", () => copyOf() > 0n);
    const copied = rowsOf(receiver, "m").length;
    await waitFor("changes behind it", () => rowsOf(receiver, "m").length > copied);
    isOver = true;
    await inserting;
    await expectSource(stage, "m");
    // What is delivered and not noted comes again as it was.
    await stage.sql("insert into m values (-1)");
    await waitFor("the row", () => rowsOf(receiver, "m").some(({ a }) => a === -1));
    await stage.life.kill();
    await stage.start();
    await stage.untilRealtime();
    await stage.sql("insert into m values (-2)");
    await expectSource(stage, "m");
  },
);

test.each(pick(["default", "full"], (identity) => identity === "full"))(
  "tables keyed by hash, under replica identity %s",
  async (identity) => {
    await using stage = await streaming("", {
      source: { keyless_table_strategy: { dedup_by_row_hash: {} } },
    });
    const { receiver, life, database } = stage;
    const held = () => {
      const byHash = heldInOrder(receiver, "m", "_sm_row_hash");
      expect(new Set(heldByVersion(receiver, "m", "_sm_row_hash").keys())).toEqual(new Set(byHash.keys()));
      return [...byHash.values()].map(({ a }) => Number(a)).toSorted((a, b) => a - b);
    };
    const expectHeld = async () => {
      const rows = await stage.sql<{ a: number }>("select distinct a from m order by a");
      await waitFor("the rows", () => held().length === rows.length).catch(() => {});
      expect(held()).toEqual(rows.map(({ a }) => a));
    };
    let release = hold(stage);
    let reading = untilRead(stage, "m");
    await stage.sql(
      `create table m (a int); alter table m replica identity ${identity}; insert into m select g / 2 from generate_series(1, 600) g`,
    );
    await reading;
    const removal =
      identity === "full" ? "delete from m where a between 5 and 9; update m set a = -a where a = 20;" : "";
    await stage.sql(`${removal} insert into m values (1000), (1), (1)`);
    // Only with the whole row before does a change tell which row it is of.
    if (identity === "full") await expectOthersGoOn(stage);
    release();
    await expectHeld();
    receiver.requests.length = 0;
    release = hold(stage);
    reading = untilRead(stage, "m");
    const task = life.snapshot(database, "m");
    await reading;
    await stage.sql(`${removal.replaceAll("5 and 9", "15 and 19")} insert into m values (2000), (2)`);
    if (identity === "full") await expectOthersGoOn(stage);
    release();
    expect(await task).toBeNull();
    await expectHeld();
  },
);

test.each(["u", "r"])(
  "with %s among the skipped operations a first copy and a task have what was committed before their points",
  async (skipped) => {
    await using stage = await streaming("", {
      sink: { format: { debezium: { skipped_operations: skipped } } },
    });
    const { receiver, life, database } = stage;
    const envelopes = (op: string) => envelopesOf(receiver, "m").filter((row) => row.op === op);
    const reads = skipped === "r" ? 0 : 300;
    let release = hold(stage);
    let reading = untilRead(stage, "m");
    await stage.sql(
      "create table m (id int primary key, v text); insert into m select g, 'v' from generate_series(1, 300) g",
    );
    await reading;
    await stage.sql("update m set v = 'later' where id = 7; insert into m values (1000, 'new')");
    release();
    await waitFor("the row", () => envelopes("c").some(({ after }) => after?.id === 1000));
    await waitFor("the copy", () => envelopes("r").length === reads);
    expect(envelopes("u").length).toBe(skipped === "u" ? 0 : 1);
    release = hold(stage);
    reading = untilRead(stage, "m");
    const task = life.snapshot(database, "m");
    await reading;
    await stage.sql("delete from m where id = 8; update m set v = 'later' where id = 9");
    release();
    expect(await task).toBeNull();
    await waitFor("the removal", () => envelopes("d").length === 1);
    expect(envelopes("r").length).toBe(reads === 0 ? 0 : reads + 301);
    const last = envelopesOf(receiver, "m").findLast(({ before, after }) => (after ?? before)?.id === 8);
    expect(last?.op).toBe("d");
  },
);
