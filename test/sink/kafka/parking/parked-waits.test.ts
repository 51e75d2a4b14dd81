// What a row that is parked, and one that is sent again, have to wait for, over a parking in memory.

import { afterEach, beforeEach, expect, test } from "bun:test";
import { lsn, parseLsn } from "../../../../src/change/lsn.ts";
import { ChangeRows } from "../../../../src/sink/delivery/stream/change-rows.ts";
import type { PlannedRow } from "../../../../src/sink/delivery/stream/request-plan.ts";
import { KafkaOutlet } from "../../../../src/sink/kafka/kafka-outlet.ts";
import type { KafkaParkingSet } from "../../../../src/sink/kafka/parking/kafka-parking-set.ts";
import {
  insert,
  parkingSetOver,
  settings,
  table,
  textOf,
  tooLarge,
} from "../../../support/kafka/parking-table.ts";
import { batches, type FixtureChange, transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";
import { allPassed } from "../../../support/webhook/parked-entry.ts";

/** Rows that hold "large" are refused. */
class Session {
  readonly sent: string[] = [];
  readonly set: KafkaParkingSet;
  readonly outlet: KafkaOutlet;

  /** `sendAgain`: what is called of a message that is sent again. */
  constructor(parking: MemoryParking, isTransactional: boolean, sendAgain: () => Promise<void>) {
    this.set = parkingSetOver(parking, {
      taken: isTransactional ? null : async () => {},
      add: async (_, row, __, added) => {
        await sendAgain();
        this.sent.push(textOf(row));
        added();
      },
    });
    const addRow = (_: unknown, row: PlannedRow) => {
      if (textOf(row).includes("large")) throw tooLarge;
      this.sent.push(textOf(row));
      return 1;
    };
    this.outlet = new KafkaOutlet({
      sent: () => () => {},
      countEvery: 100,
      writer: { addRow },
      parking: this.set.parking,
      log: { hasCapacity: true, untilCapacity: async () => {}, isOver: false },
      book: null,
      seal: null,
      flushIntervalMs: 5,
    });
  }

  write(...changes: FixtureChange[]): void {
    const rows = new ChangeRows(1, settings.encoding, [], null);
    const outlet = { addRow: this.outlet.addRow.bind(this.outlet), addBoundary() {}, tookVersion() {} };
    const from = { resumeLsn: lsn(1n), partial: null, lastVersion: 1n };
    for (const batch of batches([transaction(1, changes)], { from }))
      for (let i = 0; i < batch.count; i++)
        rows.add(batch, i, table, {
          ...outlet,
          seal() {},
          hasCapacity: true,
          untilCapacity: async () => {},
        });
  }

  async end(): Promise<void> {
    await this.set.stored();
    await this.set.retry.stop(AbortSignal.timeout(1_000));
  }
}

let parking: MemoryParking;
/** A message is sent again once it has resolved. */
let gate: PromiseWithResolvers<void>;
let sessions: Session[];

beforeEach(() => {
  parking = new MemoryParking();
  gate = Promise.withResolvers();
  gate.promise.catch(() => undefined);
  sessions = [];
});
afterEach(async () => {
  gate.resolve();
  for (const session of sessions) await session.end();
});

async function begin(isTransactional: boolean): Promise<Session> {
  const session = new Session(parking, isTransactional, () => gate.promise);
  sessions.push(session);
  await session.set.begin([]);
  return session;
}

const isTried = (session: Session) =>
  waitFor("the retry", () => session.set.retry.isActive, { timeoutMs: 5_000 });

const changes = [insert(1, "a"), insert(1, "large"), insert(2, "b")];

test.each([["this"], ["an earlier"]])(
  "without transactions a row that %s session has parked is sent again once no earlier one of its key can come again",
  async (which) => {
    gate.resolve();
    if (which === "an earlier") {
      const first = await begin(false);
      first.write(...changes);
      await first.end();
    }
    const session = await begin(false);
    session.write(...changes);
    await session.set.stored();
    parking.ask();
    await isTried(session);
    expect([session.set.retry.awaitsStream, session.sent]).toEqual([true, ["a", "b"]]);
    const { commitLsn, lastVersion } = {
      ...allPassed,
      commitLsn: parseLsn(parking.parkedEver[0]!.firstLsn!),
    };
    // The row is the second one of its transaction.
    const passed = (ordinal: number) =>
      session.set.passed({ resumeLsn: commitLsn, partial: { commitLsn, ordinal }, lastVersion }, false);
    passed(0);
    expect(session.set.retry.awaitsStream).toBe(true);
    passed(1);
    await waitFor("the row", () => parking.parked.length === 0);
    expect(session.sent).toEqual(["a", "b", "large"]);
  },
);

/** A session that sends three again, which may be parked at most, and whose stream brings two more. */
async function overfull(): Promise<Session> {
  const session = await begin(true);
  session.write(insert(1, "large"), insert(2, "large"), insert(3, "large"));
  await session.set.stored();
  expect(session.outlet.hasCapacity).toBe(true);
  parking.ask();
  await isTried(session);
  expect(session.outlet.hasCapacity).toBe(true);
  session.write(insert(4, "large"));
  expect(session.outlet.hasCapacity).toBe(false);
  return session;
}

test("full: the stream waits behind a row that has no place until messages that are sent again make one", async () => {
  const session = await overfull();
  let isFree = false;
  const free = session.outlet.untilCapacity().then(() => {
    isFree = true;
  });
  await session.set.stored();
  await Bun.sleep(20);
  expect([isFree, parking.parked.length]).toEqual([false, 4]);
  gate.resolve();
  await free;
  expect([session.outlet.hasCapacity, session.sent.length > 0]).toEqual([true, true]);
});

test("full: the stream goes on where no message that is sent again makes a place, and says so of the next row", async () => {
  const session = await overfull();
  gate.reject(tooLarge);
  await session.outlet.untilCapacity();
  expect(session.outlet.hasCapacity).toBe(true);
  expect(() => session.write(insert(5, "large"))).toThrow("Parking is full: 4 messages");
});

test("full: the stream does not wait for messages that wait for it, until so many more than may be are parked", async () => {
  const first = await begin(true);
  first.write(insert(1, "large"), insert(2, "large"), insert(3, "large"));
  await first.end();
  parking.ask();
  const next = await begin(true);
  await isTried(next);
  next.write(insert(4, "large"), insert(5, "large"));
  expect([next.set.retry.awaitsStream, next.outlet.hasCapacity]).toEqual([true, true]);
  next.write(insert(6, "large"));
  expect(() => next.write(insert(7, "large"))).toThrow("Parking is full: 6 messages");
});

test.each(["stops", "fails"])("full: what waits for a place is let go when the session %s", async (how) => {
  const session = await overfull();
  const free = session.outlet.untilCapacity();
  const stopped = session.set.retry.stop(how === "fails" ? AbortSignal.abort() : AbortSignal.timeout(1_000));
  await free;
  gate.resolve();
  await stopped;
});
