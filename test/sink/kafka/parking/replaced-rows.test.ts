// A row of a copy that is read again, as of another point, and takes the place of what was parked of it: what becomes of that, and of what
// people wish for it meanwhile.

import { expect, test } from "bun:test";
import { ParkingSession } from "../../../support/kafka/parking-session.ts";
import { insert, tooLarge } from "../../../support/kafka/parking-table.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";
import { allPassed } from "../../../support/webhook/parked-entry.ts";

test("a row of a copy that is read again takes the place of what was parked of it, behind changes that came since", async () => {
  const parking = new MemoryParking();
  const first = new ParkingSession(parking);
  await first.set.begin([]);
  expect(first.copy(1_000, insert(1, "large"), insert(2, "large"))).toEqual([]);
  first.lastVersion = 1_500_000n;
  expect(first.write(insert(2, "b"))).toEqual([]);
  await first.end();
  // Others are parked in its place, though the parking is full.
  for (const atMs of [2_000_000_000_000, 3_000_000_000_000]) {
    const next = new ParkingSession(parking);
    await next.set.begin([]);
    expect(next.copy(atMs, insert(1, "large"), insert(2, "large too"), insert(3, "c"))).toEqual(["c"]);
    // As of the same point it is the same.
    expect(next.copy(atMs, insert(1, "large"), insert(2, "large too"))).toEqual([]);
    await next.end();
  }
  const kept = parking.parked.map(({ message, attempts }) => [message.keys, message.cause, attempts.length]);
  expect(kept).toEqual([
    ['[{"id":2}]', "behind", 0],
    ['[{"id":1}]', "refused", 1],
    ['[{"id":2}]', "refused", 1],
  ]);
  const last = new ParkingSession(parking);
  await last.set.begin([]);
  last.copy(3_000_000_000_000, insert(1, "large"), insert(2, "large too"));
  last.set.passed(allPassed, false);
  parking.ask();
  await waitFor("the retry", () => last.added.length === 3, { timeoutMs: 5_000 });
  expect(last.added.filter((text) => text !== "large")).toEqual(["b", "large too"]);
  await last.end();
});

const patience = { timeoutMs: 5_000 };

/** A session that has parked a row of a copy. */
async function parkedRow(parking: MemoryParking): Promise<ParkingSession> {
  const session = new ParkingSession(parking);
  await session.set.begin([]);
  expect(session.copy(1_000, insert(2, "large"))).toEqual([]);
  await session.set.stored();
  return session;
}

test("a row that takes the place of one that was discarded goes as what waits behind that, once", async () => {
  const parking = new MemoryParking();
  const session = await parkedRow(parking);
  session.failsAgain = tooLarge;
  let looks = 0;
  session.hold = async ({ kind }) => {
    if (kind === "look") looks++;
  };
  parking.discard(parking.parked[0]!.message.id);
  // The session does not know yet.
  expect(session.copy(2_000, insert(2, "large too"))).toEqual([]);
  expect(session.write(insert(2, "b"))).toEqual([]);
  await waitFor("the row", () => session.added.length > 0, patience);
  looks = 0;
  // It stays parked, and the discard is told again.
  await waitFor("later looks", () => looks === 2, patience);
  expect(session.added).toEqual(["large too"]);
  await session.end();
});

test("a row that takes the place of one that was asked for is sent, whichever of the two the state knows", async () => {
  const parking = new MemoryParking();
  const session = await parkedRow(parking);
  const stored = Promise.withResolvers<void>();
  const looked = Promise.withResolvers<void>();
  session.hold = async ({ kind }) => {
    if (kind === "park") await stored.promise;
    if (kind === "look") setTimeout(looked.resolve, 20);
  };
  parking.ask();
  expect(session.copy(2_000, insert(2, "large too"))).toEqual([]);
  await looked.promise;
  stored.resolve();
  await waitFor("the row", () => session.added.length > 0, patience);
  expect(session.added).toEqual(["large too"]);
  await session.end();
});

test("of a row that is read again and again one is left, though many are stored together", async () => {
  const parking = new MemoryParking();
  const session = await parkedRow(parking);
  for (const atMs of [2_000, 3_000, 4_000, 5_000])
    session.copy(atMs, insert(1, `large ${atMs}`), insert(2, `large ${atMs}`));
  await session.end();
  expect(parking.parked.map(({ message }) => message.keys)).toEqual(['[{"id":1}]', '[{"id":2}]']);
  const next = new ParkingSession(parking);
  await next.set.begin([]);
  next.set.passed(allPassed, false);
  parking.ask();
  await waitFor("both", () => next.added.length === 2, patience);
  expect(next.added).toEqual(["large 5000", "large 5000"]);
  await next.end();
});

test("rows of copies that were delivered or discarded are forgotten with what the state forgets, also within a session", async () => {
  const session = new ParkingSession(new MemoryParking());
  await session.set.begin([]);
  const { entries } = session.set.parking;
  const refs = Array.from({ length: 50 }, (_, id) => {
    session.copy(1_000, insert(id, "large"));
    const [entry] = entries.parked.all();
    entries.settle(entry!);
    return new WeakRef(entry!);
  });
  expect(entries.settled.size).toBe(50);
  await session.set.stored();
  session.aheadMs = 8 * 24 * 3_600_000;
  session.set.passed(allPassed, false);
  expect(entries.isEmpty).toBe(true);
  await Bun.sleep(0);
  Bun.gc(true);
  // The stack may hold some of them still.
  expect(refs.filter((ref) => ref.deref()).length).toBeLessThan(10);
  await session.end();
});
