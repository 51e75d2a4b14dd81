// After a restart requests come again that had arrived. What is refused then, or had been parked, keeps its keys and its order.

import { expect, test } from "bun:test";
import { type FixtureTransaction, transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { insert, log, ParkingBench, refuses, update } from "../../../support/webhook/parking-bench.ts";
import type { ReceiverScript } from "../../../support/webhook/webhook-receiver.ts";

/** As long as it is not delivered, the checkpoint stays before all that follows. */
const blocker = transaction(1, [{ kind: "insert", relation: log, after: ["blocker"] }]);
const whileBlocked =
  (status: number, isRefused: (body: string) => boolean = () => false): ReceiverScript =>
  ({ body }) =>
    body.includes("blocker") ? 503 : isRefused(body) ? status : 200;
const keysOf = (requests: readonly { readonly headers: Readonly<Record<string, string>> }[]) =>
  new Set(requests.map(({ headers }) => headers["idempotency-key"]));
const ofTen = { batch: { max_batch_size: 10 }, retry: { initial_backoff_ms: 20, max_backoff_ms: 20 } };
const tenFrom = (id: number) => Array.from({ length: 10 }, (_, i) => insert(id + i));

/** In another life, to a receiver that takes all. Then what is parked is sent too. */
async function comeAgain(
  at: ParkingBench,
  change: Parameters<ParkingBench["life"]>[0],
  transactions: readonly FixtureTransaction[],
): Promise<void> {
  at.receiver.script = () => 200;
  const next = await at.life(change);
  for (const each of transactions) {
    await next.write([each]);
    await next.sink.flush();
  }
  at.store.parking.ask();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
}

test("a request that had arrived and is refused after a restart is not cut, and neither is one behind it", async () => {
  await using at = await ParkingBench.start(whileBlocked(422));
  // Both have a row of key 10.
  const load = [
    transaction(2, [...tenFrom(1), ...tenFrom(101).slice(0, 9), update(10, "later")]),
    transaction(3, tenFrom(201)),
  ];
  const first = await at.life(ofTen);
  await first.write([blocker, ...load]);
  await waitFor("all but the blocker", () => at.receiver.delivered.length >= 3);
  await first.rig[Symbol.asyncDispose]();
  const arrived = keysOf(at.receiver.delivered);

  at.receiver.script = whileBlocked(401, (body) => body.includes('"id":1,'));
  const second = await at.life(ofTen);
  await second.write([blocker, ...load]);
  await waitFor("two parked messages", () => at.parked.length === 2);
  expect(at.parked.map(({ message: { cause, rows } }) => [cause, rows])).toEqual([
    ["refused", 10],
    ["behind", 10],
  ]);
  expect(at.store.parking.cuts.size).toBe(0);
  await second.rig[Symbol.asyncDispose]();

  at.receiver.script = () => 200;
  at.store.parking.ask();
  const third = await at.life(ofTen);
  await third.write([blocker, ...load]);
  await third.sink.flush();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  // What had arrived has come again under the same keys, or not at all.
  const ofLoad = at.receiver.delivered.filter(({ body }) => !body.includes("blocker"));
  expect(arrived.isSupersetOf(keysOf(ofLoad))).toBe(true);
});

test("a retry waits until nothing that was delivered before it comes again", async () => {
  await using at = await ParkingBench.start(whileBlocked(422, (body) => body.includes("bad")));
  const single = { batch: { max_batch_size: 1 }, retry: { initial_backoff_ms: 20, max_backoff_ms: 20 } };
  const load = [blocker, transaction(2, [insert(5, "first")]), transaction(3, [update(5, "bad")])];
  const first = await at.life(single);
  await first.write(load);
  await waitFor("the parked message", () => at.parked.length === 1);
  at.receiver.script = whileBlocked(422);
  at.store.parking.ask();
  await Bun.sleep(1_500);
  await first.rig[Symbol.asyncDispose]();

  at.receiver.script = () => 200;
  const second = await at.life(single);
  await second.write(load);
  await second.sink.flush();
  await waitFor("the parking to be empty", () => at.parked.length === 0);
  const ofFive = at.receiver.delivered.filter(({ body }) => body.includes('"id":5,'));
  expect(ofFive.at(-1)!.body).toContain("bad");
});

/** Without the table of the blocker versions are one lower. */
const ofOneMoment = (...changes: Parameters<typeof transaction>[1]) =>
  transaction(2, changes, blocker.commitTimeUs);

test.each([
  ["one row each", 1, 1, [insert(1, "bad"), update(1, "good")]],
  ["several rows", 2, 2, [insert(1, "bad"), insert(2), ...["a", "b", "c", "d"].map((v) => update(1, v))]],
] as const)(
  "a row that found no place is not taken for a parked one when another table has left the selection (messages of %s)",
  async (_, max_batch_size, max_messages, changes) => {
    const bad = refuses("bad");
    await using at = await ParkingBench.start((request) =>
      request.body.includes("blocker") ? 503 : bad(request),
    );
    const setting = (most: number) => ({
      batch: { max_batch_size },
      on_exhausted: { park: { max_messages: most } },
    });
    const load = ofOneMoment(...changes);
    const first = await at.life(setting(max_messages));
    await first.write([blocker, load]);
    await waitFor("the parking to be full", () => at.failure?.code === "parking_full");
    await first.rig[Symbol.asyncDispose]();

    at.receiver.script = () => 200;
    const next = await at.life(setting(100));
    at.store.parking.ask();
    await next.write([load]);
    await next.sink.flush();
    await waitFor("the parking to be empty", () => at.parked.length === 0);
    expect(namesOf(at)).toEqual(changes.flatMap(({ after: [id, name] }) => (id === "1" ? name! : [])));
  },
);

/** What the receiver has of key 1, each request once. */
const namesOf = (at: ParkingBench) =>
  at.receiver.deduplicated.flatMap(({ body }) => body.match(/(?<="id":1,"name":")\w+/g) ?? []);

test.each([
  [3, 1, 2],
  // A window of them, and one more.
  [65_535, 0, 0],
])(
  "rows are known, and keep their order, when a table of %i rows has left the selection and requests of %i rows have %i",
  async (count, before, after) => {
    const lines = Array.from({ length: count }, (_, i) => `${i === 0 ? "blocker" : "line"} ${i}`);
    const many = transaction(
      1,
      lines.map((line) => ({ kind: "insert", relation: log, after: [line] }) as const),
    );
    const bad = refuses("bad");
    await using at = await ParkingBench.start((request) =>
      request.body.includes("blocker") ? 503 : bad(request),
    );
    const setting = (max_batch_size: number, max_messages: number) => ({
      batch: { max_batch_size },
      on_exhausted: { park: { max_messages } },
    });
    const load = ofOneMoment(insert(1, "bad"), update(1, "good"));
    const first = await at.life(setting(before, 1));
    await first.write([many, load]);
    await waitFor("the parking to be full", () => at.failure?.code === "parking_full");
    await first.rig[Symbol.asyncDispose]();

    await comeAgain(at, setting(after, 100), [load, transaction(500, [insert(9)])]);
    expect(namesOf(at)).toEqual(["bad", "good"]);
  },
);

test("what is parked is not parked again when another table has left the selection and requests are others", async () => {
  const bad = refuses("bad");
  await using at = await ParkingBench.start((request) =>
    request.body.includes("blocker") ? 503 : bad(request),
  );
  const load = ofOneMoment(insert(1, "bad"), insert(2, "fine"), update(1, "good"));
  const first = await at.life({ batch: { max_batch_size: 10 } });
  await first.write([blocker, load]);
  await waitFor("the parked messages", () => at.parked.length === 2);
  await first.rig[Symbol.asyncDispose]();

  await comeAgain(at, { batch: { max_batch_size: 1 } }, [load, transaction(5, [insert(9)])]);
  expect(namesOf(at)).toEqual(["bad", "good"]);
});

test("a discarded row is not sent when another table has come into the selection", async () => {
  const bad = refuses("bad");
  await using at = await ParkingBench.start((request) =>
    request.body.includes("blocker") ? 503 : bad(request),
  );
  const setting = { batch: { max_batch_size: 1 }, retry: { initial_backoff_ms: 50, max_backoff_ms: 50 } };
  const held = transaction(1, [insert(7, "blocker")]);
  const lines = (place: number) =>
    transaction(
      place,
      Array.from({ length: 50 }, (_, i) => ({
        kind: "insert" as const,
        relation: log,
        after: [`line ${i}`],
      })),
      held.commitTimeUs,
    );
  const load = transaction(4, [insert(1, "bad"), insert(2, "fine")], held.commitTimeUs);
  const first = await at.life(setting);
  await first.write([held, load]);
  await waitFor("the parked message", () => at.parked.length === 1);
  at.store.parking.discard(at.parked[0]!.message.id);
  await first.rig[Symbol.asyncDispose]();

  at.receiver.script = () => 200;
  const next = await at.life(setting);
  await next.write([held, lines(2)]);
  await next.sink.flush();
  // What is passed is forgotten now and then.
  const { length } = at.store.parking.sweeps;
  await Bun.sleep(2_200);
  await next.write([lines(3)]);
  await next.sink.flush();
  await waitFor("a sweep", () => at.store.parking.sweeps.length > length);
  await next.write([load]);
  await next.sink.flush();
  expect(namesOf(at)).toEqual([]);
}, 15_000);

test("a row is not taken for a parked one after the checkpoint has passed that, with lower versions, and the service has died", async () => {
  const bad = refuses("bad");
  await using at = await ParkingBench.start((request) =>
    request.body.includes("blocker") ? 503 : bad(request),
  );
  const single = { batch: { max_batch_size: 1 } };
  const parked = ofOneMoment(insert(1, "bad"));
  const behind = transaction(3, [update(1, "good")], blocker.commitTimeUs + 1n);
  const first = await at.life(single);
  await first.write([blocker, parked]);
  await waitFor("the parked message", () => at.parked.length === 1);
  await first.rig[Symbol.asyncDispose]();
  const second = await at.life(single);
  await second.write([parked]);
  await second.sink.flush();
  await second.rig[Symbol.asyncDispose]();

  const third = await at.life(single);
  await third.write([parked, behind]);
  await third.sink.flush();
  expect(at.parked.map(({ message: { cause } }) => cause)).toEqual(["refused", "behind"]);
});
