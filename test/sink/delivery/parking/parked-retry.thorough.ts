// What is sent again, where a run ends amid it, where people change their mind, and where there is no space.

import { expect, test } from "bun:test";
import { reachOf } from "../../../../src/change/checkpoint.ts";
import { neverAborted } from "../../../../src/concurrency/until-aborted.ts";
import type { ParkedEntry } from "../../../../src/connector/parking.ts";
import { RequestWork } from "../../../../src/sink/delivery/order/request-work.ts";
import { Parking } from "../../../../src/sink/delivery/parking/parking.ts";
import { parkingStoreOf } from "../../../../src/sink/delivery/parking/parking-store.ts";
import { transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";
import { insert, log, ParkingBench, refuses, update } from "../../../support/webhook/parking-bench.ts";

const single = { batch: { max_batch_size: 1 } };
const takes = () => 200;
const line = (text: string) => ({ kind: "insert", relation: log, after: [text] }) as const;
const patient = { kind: "answer", status: 503, headers: { "retry-after": "30" } } as const;
const sent = (at: ParkingBench) =>
  at.receiver.delivered
    .map(({ body }) => JSON.parse(body) as { id: number; name: string })
    .map(({ name }) => name);

test("what waited behind a message follows it also where the run ends amid the retry", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life(single);
  await life.write([transaction(1, [insert(2, "bad"), update(2, "b"), update(2, "c")])]);
  await life.sink.flush();
  await life.rig.kill();
  expect(at.parked.length).toBe(3);
  // It is noted that the first one was delivered, and then the service dies.
  at.receiver.script = takes;
  at.store.parking.answer({ kind: "delivered", ids: [at.parked[0]!.message.id] });
  const next = await at.life(single);
  await next.write([transaction(1, [insert(2, "bad"), update(2, "b"), update(2, "c")])]);
  await waitFor("what waited behind it", () => at.parked.length === 0);
  expect(sent(at)).toEqual(["b", "c"]);
});

test("one that was refused again stays, also after a restart, and so does what waits behind it", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life(single);
  const rows = [transaction(1, [insert(2, "bad"), update(2, "bad too"), update(2, "c")])];
  await life.write(rows);
  await life.sink.flush();
  at.store.parking.discard(at.parked[0]!.message.id);
  await waitFor("the attempt", () => at.parked[0]?.attempts.length === 1);
  // What waits behind it was asked for as well, until it is noted that all were tried.
  await waitFor("the end of the retry", () => at.parked.every(({ asked }) => asked === null));
  await life.rig.kill();
  const { length } = at.receiver.requests;
  const next = await at.life(single);
  await next.write(rows);
  await next.sink.flush();
  await Bun.sleep(100);
  expect([at.parked.length, at.receiver.requests.length]).toEqual([2, length]);
});

test("a message that is discarded while it is sent does not keep its key waiting", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life({ ...single, retry: { initial_backoff_ms: 60_000, max_backoff_ms: 60_000 } });
  await life.write([transaction(1, [insert(2, "bad"), update(2, "b")])]);
  await life.sink.flush();
  at.receiver.script = ({ body }) => (body.includes("bad") ? 503 : 200);
  const { length } = at.receiver.requests;
  at.store.parking.ask();
  await waitFor("the attempt", () => at.receiver.requests.length > length);
  at.store.parking.discard(at.parked[0]!.message.id);
  await waitFor("what waited behind it", () => at.parked.length === 0, { timeoutMs: 8_000 });
  await life.write([transaction(2, [update(2, "c")])]);
  await life.sink.flush();
  expect(sent(at)).toEqual(["b", "c"]);
}, 15_000);

test("the time between two rounds goes on where a run ends amid it", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const config = { ...single, on_exhausted: { park: { retry_every_minutes: 10 } } };
  const rows = [transaction(1, [insert(2, "bad"), update(2, "b")])];
  const life = await at.life(config);
  await life.write(rows);
  await life.sink.flush();
  await life.rig.kill();
  at.receiver.script = takes;
  const later = async (minutes: number) => {
    at.store.parking.aheadMs = minutes * 60_000;
    const next = await at.life(config);
    await next.write(rows);
    await next.sink.flush();
    const { looks } = at.store.parking;
    await waitFor("a look", () => at.store.parking.looks > looks || at.parked.length === 0);
    return next;
  };
  await (await later(9)).rig.kill();
  expect(at.parked.length).toBe(2);
  await later(11);
  await waitFor("the retry", () => at.parked.length === 0);
  expect(sent(at)).toEqual(["bad", "b"]);
});

/** Parks these, each alone, and begins to send them again while the receiver asks for patience: one at once. */
async function heldUp(at: ParkingBench, ids: readonly number[], max_in_flight = 2) {
  const life = await at.life({ ...single, max_in_flight });
  await life.write(ids.map((id) => transaction(id, [insert(id, "bad")])));
  await life.sink.flush();
  at.receiver.script = ({ body }) => (body.includes("bad") ? patient : 200);
  const { length } = at.receiver.requests;
  at.store.parking.ask();
  await waitFor("the retry", () => at.receiver.requests.length > length);
  return life;
}

test.each([1, 2])(
  "rows of keys whose turn to be sent again has not come hold up no others, of %d requests at once",
  async (maxInFlight) => {
    await using at = await ParkingBench.start(refuses("bad"));
    const life = await heldUp(at, [1, 2, 3], maxInFlight);
    await life.write([1, 2, 3].map((id) => transaction(10 + id, [update(id, "later")])));
    await life.write([transaction(20, [insert(9)])]);
    await waitFor("another key's row", () => sent(at).includes("u9"));
    // That of the message that is being sent waits for it, where it is not the only one that may be on its way.
    const most = 6 - (maxInFlight - 1);
    await waitFor("the others to be parked", () => at.parked.length === most);
    await life.rig.kill();
  },
);

test("rows that wait for one message that is being sent leave room for others", async () => {
  await using at = await ParkingBench.start(() => 503);
  const first = await at.life({ retry: { max_retries: 1, initial_backoff_ms: 1, max_backoff_ms: 2 } });
  const inserts = transaction(1, [insert(1, "bad"), insert(2, "bad"), insert(3, "bad")]);
  await first.write([inserts]);
  await first.sink.flush();
  await first.rig[Symbol.asyncDispose]();
  expect(at.parked.map(({ message }) => message.rows)).toEqual([3]);
  const life = await heldUp(at, []);
  await life.write([1, 2, 3].map((id) => transaction(10 + id, [update(id, "later")])));
  await life.write([transaction(20, [insert(9)])]);
  await waitFor("another key's row", () => sent(at).includes("u9"));
  // One of the three waits for what is being sent.
  await waitFor("the others to be parked", () => at.parked.length === 3);
  await life.rig.kill();
});

test.each([1, 8])(
  "what is sent again counts among the %d requests at once",
  async (maxInFlight) => {
    await using at = await ParkingBench.start(refuses("bad"));
    const life = await at.life({ ...single, max_in_flight: maxInFlight });
    await life.write([
      transaction(
        1,
        [1, 2, 3, 4, 5, 6].map((id) => insert(id, `bad ${id}`)),
      ),
    ]);
    await life.sink.flush();
    expect(at.parked.length).toBe(6);
    at.receiver.script = () => ({ kind: "answer", status: 200, delayMs: 20 });
    at.receiver.maxInFlight = 0;
    at.store.parking.ask();
    // The stream fills all places before, amid and after the retry.
    for (let n = 0; at.parked.length > 0 || n < 2; n++) {
      const ids = Array.from({ length: 20 }, (_, i) => 100 * (n + 1) + i);
      await life.write([transaction(n + 2, [...ids.map((id) => insert(id)), update(1 + (n % 6), "later")])]);
      await life.sink.flush();
    }
    expect(at.receiver.maxInFlight).toBe(maxInFlight);
    expect(sent(at).filter((name) => name.startsWith("bad")).length).toBe(6);
  },
  30_000,
);

test("no message of a table is sent again before the time that the receiver asks for; then all are", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life({ ...single, max_in_flight: 4, on_exhausted: { park: { max_messages: 3 } } });
  for (const id of [1, 2, 3]) {
    await life.write([transaction(id, [insert(id, `bad ${id}`)])]);
    await life.sink.flush();
  }
  const tries = () => at.receiver.requests.filter(({ body }) => body.includes("bad")).length - 3;
  const busy = { kind: "answer", status: 429, headers: { "retry-after": "31" } } as const;
  const looked = async () => {
    const { looks } = at.store.parking;
    await waitFor("looks at what is asked for", () => at.store.parking.looks > looks + 2);
  };
  at.receiver.script = ({ body }) => (body.includes("bad") ? busy : 200);
  at.store.parking.ask();
  await waitFor("the attempt", () => tries() === 1);
  await waitFor("the warning", () => at.warnings.at(-1)?.includes("not sent again before 20") ?? false);
  expect(at.warnings.at(-1)).toContain("public.users");
  at.receiver.script = takes;
  // The stream does not wait for that, also behind what is held; what is asked for again does.
  await life.write([transaction(4, [insert(4)])]);
  await life.sink.flush();
  at.store.parking.ask();
  await looked();
  expect(tries()).toBe(1);
  // One that is discarded makes its place at once.
  at.store.parking.discard(at.parked[0]!.message.id);
  await looked();
  await life.write([transaction(5, [update(2, "later")])]);
  await waitFor("what waits", () => at.parked.length === 3);
  expect([tries(), at.failure]).toEqual([1, null]);
  const began = performance.now();
  await waitFor("the rest", () => at.parked.length === 0);
  expect(performance.now() - began).toBeGreaterThan(15_000);
  expect(sent(at).filter((name) => name !== "u4")).toEqual(
    expect.arrayContaining(["bad 2", "bad 3", "later"]),
  );
}, 60_000);

test("what is asked for by itself is sent though another table waits as the receiver asks", async () => {
  await using at = await ParkingBench.start(() => 422);
  const life = await at.life(single);
  await life.write([transaction(1, [line("held"), insert(2, "bad"), update(2, "behind")])]);
  await life.sink.flush();
  const isOfLog = (body: string) => body.includes("held");
  const busy = { kind: "answer", status: 503, headers: { "retry-after": "3600" } } as const;
  at.receiver.script = ({ body }) => (isOfLog(body) ? busy : 422);
  const { length } = at.receiver.requests;
  at.store.parking.ask();
  await waitFor("both attempts", () => {
    const since = at.receiver.requests.slice(length);
    return since.some(({ body }) => isOfLog(body)) && since.some(({ body }) => body.includes("bad"));
  });
  at.receiver.script = ({ body }) => (isOfLog(body) ? busy : 200);
  await waitFor("the refusal", () =>
    at.parked.some(({ message, attempts }) => message.table === "users" && attempts.length > 1),
  );
  // Messages of the two tables are parked in either order.
  const behind = at.parked.find(({ message }) => message.cause === "behind")!.message.id;
  at.store.parking.ask(({ id }) => id === behind);
  await waitFor("what was asked for", () => at.parked.length === 1);
  expect(sent(at)).toEqual(["bad", "behind"]);
});

test("what waits as the receiver asks behind a message that was asked for by itself is sent by the next run", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life(single);
  await life.write([transaction(1, [insert(2, "bad"), update(2, "b"), update(2, "c")])]);
  await life.sink.flush();
  const busy = { kind: "answer", status: 429, headers: { "retry-after": "3600" } } as const;
  at.receiver.script = ({ body }) => (body.includes("bad") ? 200 : busy);
  const [first] = at.parked;
  at.store.parking.ask(({ id }) => id === first!.message.id);
  await waitFor("the answer", () => at.parked[0]!.attempts.some(({ status }) => status === 429));
  await life.rig.kill();
  at.receiver.script = takes;
  await at.life(single);
  await waitFor("what waits", () => at.parked.length === 0);
  expect(sent(at)).toEqual(["bad", "b", "c"]);
});

/** Fills the parking, and begins to send all of it again, while the receiver asks for so much patience. */
async function fullAndHeld(at: ParkingBench, seconds: number) {
  const life = await at.life({ ...single, on_exhausted: { park: { max_messages: 2 } } });
  await life.write([transaction(1, [insert(1, "bad"), insert(2, "bad")])]);
  await life.sink.flush();
  const busy = { kind: "answer", status: 503, headers: { "retry-after": String(seconds) } } as const;
  at.receiver.script = ({ body }) => (body.includes("bad") ? busy : 422);
  at.store.parking.ask();
  await waitFor("the wait", () => at.warnings.at(-1)?.includes("not sent again before") ?? false);
  return life;
}

test("full: a row finds no place while all that is sent again waits as the receiver asks", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await fullAndHeld(at, 3600);
  await life.write([transaction(2, [insert(3)])]);
  await waitFor("the failure", () => at.failure !== null);
  expect(at.failure).toMatchObject({ code: "parking_full" });
  // The next run asks anew, and so a stop does not wait.
  expect(at.parked.every(({ asked }) => asked !== null)).toBe(true);
}, 30_000);

test("full: a row waits for a place while what is sent again waits for a minute as the receiver asks", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await fullAndHeld(at, 60);
  await life.write([transaction(2, [insert(3), update(1, "behind")])]);
  await waitFor("the refusal", () => at.receiver.requests.some(({ body }) => body.includes("u3")));
  const { looks } = at.store.parking;
  await waitFor("looks", () => at.failure !== null || at.store.parking.looks > looks + 2);
  expect([at.failure, at.parked.length]).toEqual([null, 2]);
  const full = at.parked.map(({ message }) => message.id);
  for (const id of full) at.store.parking.discard(id);
  const isNew = ({ message }: (typeof at.parked)[number]) => !full.includes(message.id);
  await waitFor("both rows", () => at.failure !== null || at.parked.filter(isNew).length === 2);
  expect([at.failure, at.parked.length]).toEqual([null, 2]);
  expect(at.parked.some(({ message }) => message.keys.includes("3"))).toBe(true);
}, 30_000);

test("a key whose turn has come is emptied before the next one's turn", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life({ ...single, max_in_flight: 2 });
  for (const id of [1, 2]) {
    await life.write([
      transaction(id, [insert(id, `bad ${id}`), update(id, `b ${id}`), update(id, `c ${id}`)]),
    ]);
    await life.sink.flush();
  }
  at.receiver.script = takes;
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(sent(at)).toEqual(["bad 1", "b 1", "c 1", "bad 2", "b 2", "c 2"]);
});

test("full: a message of an earlier run does not go before what was delivered before it comes again", async () => {
  const config = {
    ...single,
    max_in_flight: 1,
    on_exhausted: { park: { max_messages: 1 } },
    retry: { initial_backoff_ms: 1, max_backoff_ms: 2, max_retries: 0, max_retry_duration_ms: 0 },
  };
  await using at = await ParkingBench.start(({ body }) =>
    body.includes("slow") ? 503 : body.includes("bad") ? 422 : 200,
  );
  const rows = [
    transaction(1, [insert(1, "slow")]),
    transaction(2, [insert(2, "old")]),
    transaction(3, [update(2, "bad new")]),
  ];
  const life = await at.life(config);
  await life.write(rows);
  await waitFor("the parked row", () => at.parked.length === 1);
  await life.rig.kill();
  at.store.parking.ask();
  at.receiver.script = ({ body }) => (body.includes("slow") ? 422 : 200);
  const { length } = at.receiver.delivered;
  const next = await at.life(config);
  await next.write(rows);
  await waitFor("the retry", () => sent(at).includes("bad new"));
  expect(sent(at).slice(length)).toEqual(["old", "bad new"]);
  await next.sink.flush();
  expect(at.parked.map(({ message }) => message.cause)).toEqual(["refused"]);
  expect(at.failure).toBeNull();
});

test("full: rows behind what holds up the stream do not fill the parking without end", async () => {
  await using at = await ParkingBench.start(({ body }) => (body.includes("slow") ? 503 : 422));
  const retry = { initial_backoff_ms: 1, max_backoff_ms: 2, max_retries: 0, max_retry_duration_ms: 0 };
  const limits = { cdc: { max_buffer_rows: 2 } };
  const life = await at.life({ ...single, on_exhausted: { park: { max_messages: 3 } }, retry }, { limits });
  await life.write([transaction(1, [insert(1, "slow")])]);
  await life.write([2, 3, 4].map((id) => transaction(id, [insert(id)])));
  await waitFor("the parked rows", () => at.parked.length === 3);
  at.store.parking.ask();
  const { looks } = at.store.parking;
  await waitFor("what was asked for", () => at.store.parking.looks > looks + 1);
  const more = Array.from({ length: 50 }, (_, i) => transaction(5 + i, [insert(5 + i)]));
  await life.write(more);
  await waitFor("the failure", () => at.failure !== null);
  expect(at.failure).toMatchObject({ code: "parking_full" });
  // Three, and the rows of a window: some changes are two.
  expect(at.parked.length).toBeLessThanOrEqual(7);
});

test("full: the rest of what the checkpoint passes at once is parked, however much more than may be that is", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const config = { ...single, on_exhausted: { park: { max_messages: 2 } } };
  const changes = Array.from({ length: 40 }, (_, n) => insert(1 + (n % 4), `bad ${n}`));
  const life = await at.life(config);
  await life.write([transaction(1, changes)]);
  expect(await life.sink.flush().catch((error: unknown) => error)).toMatchObject({ code: "parking_full" });
  await life.rig[Symbol.asyncDispose]();
  // Somebody lowers the limit, too.
  config.on_exhausted.park.max_messages = 1;
  at.receiver.script = takes;
  at.store.parking.ask();
  const next = await at.life(config);
  await next.write([transaction(1, changes)]);
  await next.sink.flush();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(at.failure).toMatchObject({ code: "parking_full" });
  const ofKey = (key: number) => (text: string) => Number(text.split(" ")[1]) % 4 === key;
  for (const key of [0, 1, 2, 3])
    expect(sent(at).filter(ofKey(key))).toEqual(Array.from({ length: 10 }, (_, n) => `bad ${key + 4 * n}`));
});

test("full: a row that the checkpoint passes together with what is sent again does not stop the run", async () => {
  const config = { ...single, on_exhausted: { park: { max_messages: 2 } } };
  await using at = await ParkingBench.start(refuses("bad"));
  const rows = [transaction(1, [insert(1, "bad"), insert(2, "bad"), update(1, "b"), update(2, "b")])];
  const life = await at.life(config);
  await life.write(rows);
  expect(await life.sink.flush().catch((error: unknown) => error)).toMatchObject({ code: "parking_full" });
  await life.rig[Symbol.asyncDispose]();
  at.receiver.script = takes;
  at.store.parking.ask();
  const next = await at.life(config);
  await next.write(rows);
  await next.sink.flush();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  expect(sent(at).toSorted()).toEqual(["b", "b", "bad", "bad"]);
});

test("full: a row that waits for a place takes that of a message that is discarded", async () => {
  const on_exhausted = { park: { max_messages: 2 } };
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life({ ...single, on_exhausted, max_in_flight: 4 });
  for (const id of [1, 2]) {
    await life.write([transaction(id, [insert(id, id === 1 ? "bad slow" : "bad")])]);
    await life.sink.flush();
  }
  at.receiver.script = ({ body }) => (body.includes("slow") ? patient : 422);
  const isTried = (id: number) =>
    at.receiver.requests.slice(length).some(({ body }) => body.includes(`"id":${id},`));
  const { length } = at.receiver.requests;
  at.store.parking.ask();
  // The other one is not tried meanwhile.
  await waitFor("the attempt", () => isTried(1));
  await life.write([transaction(3, [insert(3, "bad")])]);
  await waitFor("the refusal", () => isTried(3));
  at.store.parking.discard(at.parked[1]!.message.id);
  await waitFor("the place", () => at.parked.length === 2);
  expect(at.parked.map(({ message }) => message.keys)).toEqual(['[{"id":1}]', '[{"id":3}]']);
}, 15_000);

test("full: what is parked behind a message that is discarded at that moment follows it", async () => {
  const memory = new MemoryParking();
  const parking = new Parking({
    store: parkingStoreOf(async (call) => memory.answer(call)),
    connectorId: "hooks",
    parksRefused: true,
    limits: { maxMessages: 1, maxBytes: 1_000, beyond: { rows: 10, bytes: 1_000 } },
    mostWaiting: 1,
    waitsForCheckpoint: true,
    monotonic: () => 0,
    changed: () => {},
  });
  const work = (idempotencyKey: string) =>
    new RequestWork([
      {
        idempotencyKey,
        schema: "public",
        table: "t",
        body: new Uint8Array(1),
        rows: 1,
        touches: [7],
        barrier: false,
        position: null,
      },
    ]);
  const [first, second] = [Bun.randomUUIDv7(), Bun.randomUUIDv7()];
  await parking.takes(work(first), "refused", neverAborted);
  let followers: readonly ParkedEntry[] = [];
  const discard = () => {
    const entry = parking.parked.get(first)!;
    parking.entries.settle(entry);
    followers = parking.parked.freed(entry);
  };
  parking.retry = {
    isActive: true,
    makesSpace: true,
    isOver: false,
    isUnderWay: () => false,
    isSending: () => false,
    reached: () => {},
    change: async () => {},
    get awaitsStream() {
      queueMicrotask(discard);
      return true;
    },
  };
  expect(await parking.next(work(second), neverAborted)).toBeNull();
  expect(followers.map(({ id }) => id)).toEqual([second]);
});

test("what is parked beyond the checkpoint is covered by how far the sink may have received changes", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const life = await at.life({ ...single, retry: { initial_backoff_ms: 60_000, max_backoff_ms: 60_000 } });
  at.receiver.script = ({ body }) => (body.includes("slow") ? 503 : 422);
  const parked = transaction(2, [insert(1, "bad")]);
  await life.write([transaction(1, [insert(7, "slow")]), parked]);
  await waitFor("the parked row", () => at.parked.length === 1);
  await life.rig.kill();
  const from = await (await at.life(single)).rig.sink().open();
  expect(reachOf(from!)).toBeGreaterThan(parked.commitLsn);
});

test("how many messages are parked is told in the end, also where the last of them come soon after the first", async () => {
  await using at = await ParkingBench.start(refuses("bad"));
  const { sink, write } = await at.life(single);
  await write([transaction(1, [insert(1, "bad")])]);
  await sink.flush();
  expect(at.warnings.at(-1)).toContain("1 message is parked");
  await write([transaction(2, [insert(2, "bad"), insert(3, "bad")])]);
  await sink.flush();
  await waitFor("the last number", () => at.warnings.at(-1)?.includes("3 messages are parked") ?? false);
});
