// Parking at its limits, in the built program: one bad row in a million, a receiver that refuses everything, bodies of 50 MB, keys of 1,600
// columns, people who retry and discard at once, a table that is dropped meanwhile, and 100,000 messages that are listed.

import { expect, setDefaultTimeout, test } from "bun:test";
import { heldInOrder, keysThatWentBack, rowsOf } from "../support/oracles/webhook-oracles.ts";
import { ParkingWalk } from "../support/program/parking-walk.ts";
import type { ReceiverScript, WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

setDefaultTimeout(600_000);

const takesAll: ReceiverScript = () => 200;
/** Refuses requests with a row of `t` that holds this. */
const refusing =
  (text: string): ReceiverScript =>
  ({ path, body }) =>
    path === "/public/t" && body.includes(text) ? { kind: "answer", status: 422, body: `not ${text}` } : 200;
const refusesAllOfT: ReceiverScript = ({ path }) =>
  path === "/public/t" ? { kind: "answer", status: 400, body: "no" } : 200;
const park = (limits: object = {}) => ({ on_exhausted: { park: limits } });

function expectOnce(receiver: WebhookReceiver): void {
  const keys = receiver.delivered.map(({ headers }) => headers["idempotency-key"]);
  expect(keys.length - new Set(keys).size, "requests that came twice").toBe(0);
}

test("one bad row in a million", async () => {
  await using walk = await ParkingWalk.start({
    source: `create table t (id int primary key, n int not null, v text)`,
    script: refusing('"id":500000,'),
    webhook: park(),
  });
  const { receiver } = walk;
  const seconds = await walk.small("a million rows, one of them bad", async () => {
    for (let first = 1; first < 1_000_000; first += 1_000)
      await walk.source(
        `insert into t select g, 0, 'v' || g from generate_series(${first}, ${first + 999}) g`,
      );
    for (let n = 1; n <= 5; n++)
      await walk.source(`update t set n = ${n} where id in (499999, 500000, 500001)`);
    await walk.source("delete from t where id = 500000; insert into t values (500000, 6, 'anew')");
    await walk.untilCarried();
  });
  console.log(`1,000,000 rows in ${seconds.toFixed(1)} s`);
  expect(rowsOf(receiver, "t").some(({ id }) => id === 500_000)).toBe(false);
  expect(heldInOrder(receiver, "t").size).toBe(999_999);
  const { parked } = await walk.list();
  expect(parked.map(({ keys, rows }) => ({ keys, rows }))[0]).toEqual({ keys: [{ id: 500_000 }], rows: 1 });
  for (const { keys } of parked) expect(keys).toEqual([{ id: 500_000 }]);
  expect(await walk.cli("explain", "a", "public.t", '{"id":500000}')).toContain("arked");

  receiver.script = takesAll;
  await walk.cli("parked", "retry", "a", "--watch");
  expect(
    rowsOf(receiver, "t")
      .filter(({ id }) => id === 500_000)
      .map(({ n, _sm_deleted }) => (_sm_deleted ? "deleted" : n)),
  ).toEqual([0, 1, 2, 3, 4, 5, "deleted", 6]);
  expectOnce(receiver);
  const held = heldInOrder(receiver, "t");
  const rows = await walk.source<{ id: number; n: number; v: string }>("select id, n, v from t");
  expect(held.size).toBe(rows.length);
  expect(rows.filter(({ id, n, v }) => held.get(id)?.n !== n || held.get(id)?.v !== v)).toEqual([]);
});

test("a receiver that refuses everything fills the parking; one command empties it", async () => {
  await using walk = await ParkingWalk.start({
    source: `create table t (id int primary key, n int not null)`,
    script: refusesAllOfT,
    webhook: park(),
  });
  const { receiver, stage } = walk;
  let last = 1_000;
  const seconds = await walk.small("the parking fills", async () => {
    for (let n = 0; n < 40; n++)
      await walk.source(
        `insert into t select g, ${n} from generate_series(1, 1000) g on conflict (id) do update set n = excluded.n`,
      );
    // How many rows a message has depends on how fast they come: so rows come until it is full.
    let isFull = false;
    const full = walk.untilFull().finally(() => {
      isFull = true;
    });
    while (!isFull) {
      await walk.source(`insert into t select g, 0 from generate_series(${last + 1}, ${last + 1_000}) g`);
      last += 1_000;
      await Bun.sleep(100);
    }
    await full;
  });
  const { total } = await walk.list("limit=1");
  const requests = receiver.requests.length;
  console.log(`full after ${seconds.toFixed(1)} s: ${total} messages, ${requests} requests`);
  expect(total).toBeLessThanOrEqual(10_000);
  expect(requests).toBeLessThan(25_000);
  expect(JSON.stringify((await stage.api.connector("a")).status)).toContain("parking_full");

  receiver.script = takesAll;
  await walk.small("the parking empties", () => walk.empty());
  expectOnce(receiver);
  expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
  const sent = rowsOf(receiver, "t");
  for (const key of [1, 500, 1_000])
    expect(sent.filter(({ id }) => id === key).map(({ n }) => n)).toEqual(
      Array.from({ length: 40 }, (_, n) => n),
    );
  expect(sent.length).toBe(40_000 + last - 1_000);
});

test("bodies of 50 MB, keys of 1,600 columns", async () => {
  const columns = Array.from({ length: 1_600 }, (_, n) => `c${n}`);
  await using walk = await ParkingWalk.start({
    source: `create table t (id int primary key, n int not null, v text);
      create table wide (${columns.map((name) => `${name} int`).join(", ")}); alter table wide replica identity full`,
    script: ({ path, body }) =>
      (path === "/public/t" && body.includes('"id":7,')) ||
      (path === "/public/wide" && body.includes('"c0":7,'))
        ? { kind: "answer", status: 413, body: "x".repeat(5_000_000) }
        : 200,
    webhook: park(),
  });
  const { receiver } = walk;
  await walk.small(
    "three bodies of 50 MB",
    async () => {
      await walk.source(
        "insert into t select g, 0, repeat(md5(g::text), 1600000) from generate_series(6, 8) g",
      );
      await walk.source("update t set n = 1");
      for (const first of [7, 8])
        await walk.source(`insert into wide select ${columns.map((_, n) => first + n).join(", ")}`);
      await walk.source("update wide set c1 = 0; delete from wide where c0 = 8");
      await walk.untilCarried();
    },
    1024 * 1024 * 1024,
  );
  const { parked } = await walk.list();
  expect(parked.filter(({ table }) => table === "t").map(({ keys, cause }) => ({ keys, cause }))).toEqual([
    { keys: [{ id: 7 }], cause: "refused" },
    { keys: [{ id: 7 }], cause: "behind" },
  ]);
  expect(parked.filter(({ table }) => table === "wide").length).toBeGreaterThanOrEqual(2);
  const wide = parked.find(({ table }) => table === "wide")!;
  // Without a primary key nothing tells its rows apart: all that come later wait behind it.
  expect(wide.keys).toEqual([]);
  expect(await walk.cli("parked", "list", "a")).toContain(wide.id);
  const large = parked.find(({ table }) => table === "t")!;
  expect(large.bytes).toBeGreaterThan(50e6);
  expect((await walk.cli("parked", "show", "a", large.id, "--body")).length).toBeGreaterThan(50e6);
  expect(JSON.stringify(large).length, "of an answer of 5 MB").toBeLessThan(4_000);

  receiver.script = takesAll;
  await walk.small(
    "both empty",
    async () => {
      await walk.cli("parked", "retry", "a");
      await walk.untilParked(0);
    },
    1024 * 1024 * 1024,
  );
  expectOnce(receiver);
  expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
  const held = heldInOrder(receiver, "t");
  expect([6, 7, 8].map((id) => [held.get(id)?.n, String(held.get(id)?.v).length])).toEqual(
    [6, 7, 8].map(() => [1, 51_200_000]),
  );
});

test("two retries and a discard at once, again and again; a table that is dropped meanwhile", async () => {
  await using walk = await ParkingWalk.start({
    source: `create table t (id int primary key, n int not null); create table gone (id int primary key)`,
    script: () => ({ kind: "answer", status: 422, body: "no" }),
    webhook: { ...park({ max_messages: 50_000 }), batch: { max_batch_size: 5 } },
  });
  const { receiver } = walk;
  await walk.source("insert into gone select generate_series(1, 20)");
  await walk.source("insert into t select g, 0 from generate_series(1, 1000) g");
  for (let n = 1; n <= 3; n++) await walk.source(`update t set n = ${n}`);
  await walk.untilCarried();
  await walk.source("drop table gone");
  await walk.untilCarried();
  const before = await walk.list("limit=1&table=gone");
  expect(before.total).toBeGreaterThan(0);

  receiver.script = takesAll;
  const discarded = new Set<string>();
  while ((await walk.list("limit=1&table=t")).total > 0) {
    const { parked } = await walk.list("limit=1000&table=t");
    const victims = parked.filter((_, n) => n % 50 === 25).map(({ id }) => id);
    await Promise.all([
      walk.ask("retry", { table: "t" }),
      walk.ask("retry", { table: "t" }),
      ...victims.map(async (id) => {
        // One that is delivered by now is not there: 404.
        const response = await walk.stage.api.request("POST", `/api/v1/connectors/a/parked/${id}/discard`);
        if (response.ok) discarded.add(id);
        else expect(response.status, await response.text()).toBe(404);
      }),
    ]);
    await Bun.sleep(50);
  }
  console.log(`${discarded.size} discarded while all was sent again`);
  expectOnce(receiver);
  expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
  // One that was on its way when it was discarded may have arrived: never both missing and not told.
  const arrived = new Map<unknown, Set<unknown>>();
  for (const { id, n } of rowsOf(receiver, "t")) arrived.set(id, (arrived.get(id) ?? new Set()).add(n));
  const all = await walk.listAll("&state=Discarded");
  const told = new Set(all.flatMap(({ keys }) => keys.map((key) => (key as { id: number }).id)));
  const missing = Array.from({ length: 1_000 }, (_, n) => n + 1).filter(
    (id) => (arrived.get(id)?.size ?? 0) < 4,
  );
  expect(missing.filter((id) => !told.has(id))).toEqual([]);

  await walk.cli("parked", "retry", "a", "--table", "public.gone");
  await walk.untilParked(0);
  expect(rowsOf(receiver, "gone").length).toBe(20);
});

test("100,000 messages, listed by cursor", async () => {
  await using walk = await ParkingWalk.start({
    source: `create table t (id int primary key, n int not null)`,
    script: refusesAllOfT,
    webhook: { ...park({ max_messages: 200_000 }), batch: { max_batch_size: 1 } },
  });
  await walk.small("100,000 are parked", async () => {
    for (let first = 1; first < 100_000; first += 1_000)
      await walk.source(`insert into t select g, 0 from generate_series(${first}, ${first + 999}) g`);
    await walk.untilCarried();
  });
  const seen = new Set<string>();
  await walk.small("100,000 are listed", async () => {
    for (const { id } of await walk.listAll()) seen.add(id);
  });
  expect(seen.size).toBe(100_000);
  await walk.stage.api.command("a", "Stop");
  await walk.stage.service.stop();
  await walk.stage.service.launch();
  await walk.small("a start with 100,000 parked", async () => {
    await walk.stage.api.command("a", "Start");
    await walk.source("update t set n = 1 where id = 77777; insert into t values (100001, 0)");
    await walk.untilParked(100_002);
  });
  const [first] = (await walk.list("limit=1")).parked;
  walk.receiver.script = takesAll;
  await walk.small("one of 100,000 is discarded, one sent again", async () => {
    await walk.cli("parked", "discard", "a", first!.id);
    await walk.untilParked(100_001);
    const { parked } = await walk.list("limit=1");
    await walk.cli("parked", "retry", "a", parked[0]!.id);
    await walk.untilParked(100_000);
  });
});

test("a single transaction that is more than may be parked, a row in each request", async () => {
  await using walk = await ParkingWalk.start({
    source: "create table t (id int primary key, n int not null)",
    script: refusesAllOfT,
    webhook: { ...park(), batch: { max_batch_size: 1 } },
  });
  const { receiver } = walk;
  await walk.source(
    `begin; insert into t select g, 0 from generate_series(1, 4000) g;
     update t set n = 1; update t set n = 2; update t set n = 3; commit`,
  );
  await walk.untilFull();
  receiver.script = takesAll;
  await walk.small("the rest is parked, and all is sent", () => walk.empty());
  expectOnce(receiver);
  expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
  expect(rowsOf(receiver, "t").length).toBe(16_000);
});
