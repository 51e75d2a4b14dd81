// Rows that Kafka cannot take, over a parking in memory that outlives sessions: what a session that died between a commit and the state's
// note has left, and what waits behind it.

import { expect, test } from "bun:test";
import { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { ParkingSession } from "../../../support/kafka/parking-session.ts";
import { insert } from "../../../support/kafka/parking-table.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";
import { allPassed } from "../../../support/webhook/parked-entry.ts";

const changes = [insert(1, "a"), insert(2, "large"), insert(2, "b"), insert(3, "c")];

test("what is refused waits with what comes later of its key, and is known when it comes again", async () => {
  const parking = new MemoryParking();
  const first = new ParkingSession(parking);
  await first.set.begin([]);
  expect(first.write(...changes)).toEqual(["a", "c"]);
  await first.set.stored();
  expect(parking.parked.map(({ message }) => [message.cause, message.keys])).toEqual([
    ["refused", '[{"id":2}]'],
    ["behind", '[{"id":2}]'],
  ]);
  await first.set.retry.stop(AbortSignal.timeout(1_000));
  const next = new ParkingSession(parking);
  await next.set.begin([]);
  expect(next.write(...changes)).toEqual(["a", "c"]);
  await next.set.stored();
  expect(parking.parkedEver.length).toBe(2);
  parking.ask();
  await waitFor("the retry", () => next.added.length === 2, { timeoutMs: 5_000 });
  expect(next.added).toEqual(["large", "b"]);
  await waitFor("both", () => next.set.retried().length === 2);
  expect([next.commits > 0, parking.parked.length]).toEqual([true, 2]);
  next.set.committed(next.set.retried());
  await waitFor("the state to know", () => parking.parked.length === 0);
  expect(next.set.retried()).toEqual([]);
  expect(next.write(...changes, insert(2, "d"))).toEqual(["a", "c", "d"]);
  await next.set.retry.stop(AbortSignal.timeout(1_000));
});

test("a message that was committed, and that the state takes for parked, is not sent again", async () => {
  const parking = new MemoryParking();
  const first = new ParkingSession(parking);
  await first.set.begin([]);
  first.write(...changes);
  await first.set.stored();
  parking.ask(({ cause }) => cause === "refused");
  const [large] = parking.parked.map(({ message }) => message.id);
  await first.set.retry.stop(AbortSignal.timeout(1_000));
  const next = new ParkingSession(parking);
  await next.set.begin([large!]);
  expect(next.write(...changes)).toEqual(["a", "c"]);
  await waitFor("what waited behind it", () => next.added.length === 1, { timeoutMs: 5_000 });
  expect(next.added).toEqual(["b"]);
  await next.set.retry.stop(AbortSignal.timeout(1_000));
});

test.each(["sink_unreachable", "sink_too_few_brokers"] as const)(
  "a message that is sent again, and whose topic cannot be made for %s, is tried again and ends nothing",
  async (code) => {
    const parking = new MemoryParking();
    const session = new ParkingSession(parking);
    await session.set.begin([]);
    expect(session.write(insert(1, "large"))).toEqual([]);
    await session.set.stored();
    session.failsAgain = new MillraceError(code, "Brokers are down.");
    session.set.passed(allPassed, false);
    parking.ask();
    await waitFor("a try", () => session.added.length > 0, { timeoutMs: 5_000 });
    session.failsAgain = null;
    await waitFor("the message", () => session.set.retried().length === 1, { timeoutMs: 5_000 });
    expect(session.failures).toEqual([]);
    await session.end();
  },
);

test("full: the row that has no place says so", async () => {
  const session = new ParkingSession(new MemoryParking());
  await session.set.begin([]);
  const many = [1, 2, 3, 4].map((id) => insert(id, "large"));
  expect(() => session.write(...many)).toThrow("Parking is full: 3 messages");
  await session.set.retry.stop(AbortSignal.timeout(1_000));
});

test("a row whose version was raised by what was never committed goes before later ones of its key", async () => {
  const parking = new MemoryParking();
  const first = new ParkingSession(parking);
  await first.set.begin([]);
  first.lastVersion = 2n ** 52n;
  expect(first.write(insert(2, "large"))).toEqual([]);
  await first.set.stored();
  await first.set.retry.stop(AbortSignal.timeout(1_000));
  const next = new ParkingSession(parking);
  await next.set.begin([]);
  expect(next.write(insert(2, "large"), insert(2, "b"), insert(3, "c"))).toEqual(["c"]);
  const { lastVersion } = next;
  await next.end();
  // The service has died, and goes on behind them.
  const last = new ParkingSession(parking);
  await last.set.begin([]);
  Object.assign(last, { lastVersion, place: 2 });
  expect(last.write(insert(3, "d"), insert(2, "e"))).toEqual(["d"]);
  await last.set.stored();
  last.set.passed(allPassed, false);
  parking.ask();
  await waitFor("the retry", () => last.added.length === 3, { timeoutMs: 5_000 });
  expect(last.added).toEqual(["large", "b", "e"]);
  await last.end();
});

const wide = "wide".padEnd(300);
const refusedOnce = async (session: ParkingSession, write: () => string[]) => {
  await session.set.begin([]);
  expect(write()).toEqual([wide]);
  await session.brokerRefuses();
  await session.end();
};

test("what a broker refused is parked when it comes again, and later changes of the row are sent once it is taken", async () => {
  const parking = new MemoryParking();
  const first = new ParkingSession(parking);
  await refusedOnce(first, () => first.write(insert(2, wide)));
  const next = new ParkingSession(parking);
  await next.set.begin([]);
  expect(next.write(insert(2, wide), insert(3, wide))).toEqual([wide]);
  await next.set.stored();
  expect(parking.parked.map(({ attempts }) => attempts[0]?.error)).toEqual(["the broker says no"]);
  parking.ask();
  await waitFor("the retry", () => next.set.retried().length === 1, { timeoutMs: 5_000 });
  next.set.committed(next.set.retried());
  await waitFor("the state to know", () => parking.parked.length === 0);
  await next.end();
  // A change that differs in its last bytes alone, in a later session.
  const last = new ParkingSession(parking);
  await last.set.begin([]);
  expect(last.write(insert(2, wide), insert(2, `${wide.slice(1)}!`))).toEqual([`${wide.slice(1)}!`]);
  expect(parking.cuts.size).toBe(0);
  await last.end();
});

test("a row of a copy that a broker refused is parked when it is read again, as of another point", async () => {
  const parking = new MemoryParking();
  const first = new ParkingSession(parking);
  await refusedOnce(first, () => first.copy(1_000, insert(2, wide)));
  const next = new ParkingSession(parking);
  await next.set.begin([]);
  expect(next.copy(2_000, insert(2, wide), insert(3, "c"))).toEqual(["c"]);
  await next.end();
  expect([parking.parked.length, parking.cuts.size]).toEqual([1, 0]);
});

test("a commit waits for what was parked before it, and not for what is parked meanwhile", async () => {
  const parking = new MemoryParking();
  const session = new ParkingSession(parking);
  await session.set.begin([]);
  let id = 1;
  const answer = parking.answer.bind(parking);
  parking.answer = (call) => {
    const given = answer(call);
    if (call.kind === "park" && id < 3) session.write(insert(++id, "large"));
    return given;
  };
  session.write(insert(id, "large"));
  await session.set.stored();
  expect(parking.parkedEver.length).toBe(1);
  await session.set.stored();
  expect(parking.parkedEver.length).toBeGreaterThan(1);
  await session.end();
});

/** A session that has sent these again, and has committed nothing. */
async function retrying(
  parking: MemoryParking,
  texts: readonly string[],
  everyMs = 0,
): Promise<ParkingSession> {
  const session = new ParkingSession(parking, everyMs);
  await session.set.begin([]);
  session.set.passed(allPassed, false);
  await waitFor("the retry", () => session.added.length >= texts.length, { timeoutMs: 5_000 });
  expect(session.added.toSorted()).toEqual(texts.toSorted());
  return session;
}

async function parkAll(parking: MemoryParking): Promise<void> {
  const session = new ParkingSession(parking);
  await session.set.begin([]);
  session.write(insert(1, "large 1"), insert(2, "large 2"), insert(1, "behind 1"));
  await session.end();
}

const asked = (parking: MemoryParking) => parking.parked.filter((each) => each.asked !== null).length;

test.each([["asked for"], ["due"]])(
  "a retry that was %s is gone through until it is committed, whatever ends a session",
  async (cause) => {
    const parking = new MemoryParking();
    await parkAll(parking);
    const all = ["large 1", "behind 1", "large 2"];
    if (cause === "asked for") parking.ask();
    const first = await retrying(parking, all, cause === "due" ? 1 : 0);
    // The session notes what there is to note.
    await Bun.sleep(50);
    await first.end();
    expect(asked(parking)).toBe(3);
    const next = await retrying(parking, all);
    next.set.committed(next.set.retried());
    await waitFor("the state to know", () => parking.parked.length === 0);
    await next.end();
  },
);

test("a retry that a broker refuses keeps what waits behind it, and no others, until it is asked for again", async () => {
  const parking = new MemoryParking();
  await parkAll(parking);
  parking.ask();
  const first = await retrying(parking, ["large 1", "behind 1", "large 2"]);
  await Bun.sleep(50);
  const { id } = parking.parked[0]!.message;
  expect(
    await first.set.refuse(
      { name: id, bytes: 1, position: null, version: 0, parkedId: id },
      "still too large",
    ),
  ).toBe(true);
  await first.end();
  expect(parking.parked.map(({ attempts }) => attempts.at(-1)?.error)).toEqual([
    ...["still too large", "too large", undefined],
  ]);
  const next = await retrying(parking, ["large 2"]);
  next.set.committed(next.set.retried());
  await waitFor("the round to end", () => asked(parking) === 0 && parking.cuts.size === 0);
  expect([next.added, parking.parked.length]).toEqual([["large 2"], 2]);
  parking.ask();
  await waitFor("the next retry", () => next.added.length === 3, { timeoutMs: 5_000 });
  expect(next.added.slice(1)).toEqual(["large 1", "behind 1"]);
  await next.end();
});
