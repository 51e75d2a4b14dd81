// Rows that Kafka cannot take, over a parking in memory that outlives sessions: what a session that died between a commit and the state's
// note has left, and what waits behind it.

import { expect, test } from "bun:test";
import type { ChangeBatch } from "../../../../src/change/change-batch.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { CopyRows } from "../../../../src/sink/delivery/copy/copy-rows.ts";
import { sleep } from "../../../../src/sink/delivery/order/sleep.ts";
import { parkingStoreOf } from "../../../../src/sink/delivery/parking/parking-store.ts";
import { ChangeRows } from "../../../../src/sink/delivery/stream/change-rows.ts";
import type { PlannedRow } from "../../../../src/sink/delivery/stream/request-plan.ts";
import type { StreamOutlet } from "../../../../src/sink/delivery/transport.ts";
import { MessageWriter } from "../../../../src/sink/kafka/message-writer.ts";
import { isRefusal } from "../../../../src/sink/kafka/parking/kafka-parking.ts";
import { KafkaParkingSet } from "../../../../src/sink/kafka/parking/kafka-parking-set.ts";
import type { MessageRow } from "../../../../src/sink/kafka/parking/refused-records.ts";
import type { ProducerLog } from "../../../../src/sink/kafka/produce/producer-log.ts";
import { batches, type FixtureChange, transaction } from "../../../support/batch-fixture.ts";
import { insert, settings, table, tooLarge } from "../../../support/kafka/parking-table.ts";
import { MemoryParking } from "../../../support/memory-parking.ts";
import { waitFor } from "../../../support/wait-for.ts";

class Session {
  readonly added: string[] = [];
  readonly failures: string[] = [];
  commits = 0;
  readonly set: KafkaParkingSet;
  readonly #writer: MessageWriter;
  /** Of the message that was added last. */
  #row: MessageRow | null = null;

  constructor(parking: MemoryParking, retryEveryMs = 0) {
    const store = parkingStoreOf(async (call) => parking.answer(call));
    const events = {
      ...{ retrying: () => {}, warning: () => {} },
      commit: () => {
        this.commits++;
      },
      failed: (error: MillraceError) => this.failures.push(error.code),
    };
    const add = async (_: unknown, row: PlannedRow, id: string, added: () => void) => {
      const { starts, lengths } = row.after;
      this.added.push(new TextDecoder().decode(row.arena.subarray(starts[1]!, starts[1]! + lengths[1]!)));
      expect(id).toHaveLength(36);
      added();
    };
    const place = { connectorId: "rig", store };
    const tools = { place, monotonic: () => performance.now(), nowMs: Date.now, sleep, add, taken: null };
    const { connectorId, sender } = settings;
    this.set = new KafkaParkingSet(
      { connectorId, sender, parking: { ...settings.parking, retryEveryMs } },
      ...([events, tools] as const),
    );
    const log = {
      add: (...message: Parameters<ProducerLog["add"]>) => {
        this.#row = message[4] ?? null;
      },
    };
    this.#writer = new MessageWriter(log, settings.messages, settings.maxMessageBytes, this.set.refused);
  }

  /** The broker refuses what was sent last. */
  async brokerRefuses(): Promise<void> {
    expect(await this.set.refuse(this.#row, "the broker says no")).toBe(true);
  }

  /** Of the row before what is written. */
  lastVersion = 1n;

  /** Rows that hold "large" are refused. Returns those that are sent. */
  write(...changes: FixtureChange[]): string[] {
    const rows = new ChangeRows(Number(this.lastVersion), settings.encoding, [], null);
    return this.#send(changes, (batch, i, outlet) => rows.add(batch, i, table, outlet));
  }

  /** As `write`: rows of a copy, as of a point. */
  copy(atMs: number, ...rows: FixtureChange[]): string[] {
    const origin = { version: atMs * 1_000, timeUs: atMs * 1_000, lsn: lsn(1n) };
    const copied = new CopyRows(table, origin, null);
    return this.#send(rows, (batch, i, outlet) => copied.add(batch, i, outlet));
  }

  #send(
    changes: FixtureChange[],
    add: (batch: ChangeBatch, i: number, outlet: StreamOutlet) => unknown,
  ): string[] {
    const sent: string[] = [];
    const outlet = {
      addRow: (_: unknown, row: PlannedRow) => {
        const { starts, lengths } = row.after;
        const text = new TextDecoder().decode(row.arena.subarray(starts[1]!, starts[1]! + lengths[1]!));
        if (this.set.parking.takes(table, row)) return;
        try {
          if (text.includes("large")) throw tooLarge;
          this.#writer.addRow(table, row);
          sent.push(text);
        } catch (error) {
          if (!isRefusal(error)) throw error;
          this.set.parking.refuse(table, row, error);
        }
      },
      ...{ addBoundary: () => {}, tookVersion: () => {}, seal: () => {} },
      ...{ hasCapacity: true, untilCapacity: async () => {} },
    };
    const from = { resumeLsn: lsn(1n), partial: null, lastVersion: this.lastVersion };
    for (const batch of batches([transaction(1, changes)], { from }))
      for (let i = 0; i < batch.count; i++) add(batch, i, outlet);
    return sent;
  }

  async end(): Promise<void> {
    await this.set.stored();
    await this.set.retry.stop(AbortSignal.timeout(1_000));
  }
}

const changes = [insert(1, "a"), insert(2, "large"), insert(2, "b"), insert(3, "c")];

test("what is refused waits with what comes later of its key, and is known when it comes again", async () => {
  const parking = new MemoryParking();
  const first = new Session(parking);
  await first.set.begin([]);
  expect(first.write(...changes)).toEqual(["a", "c"]);
  await first.set.stored();
  expect(parking.parked.map(({ message }) => [message.cause, message.keys])).toEqual([
    ["refused", '[{"id":2}]'],
    ["behind", '[{"id":2}]'],
  ]);
  await first.set.retry.stop(AbortSignal.timeout(1_000));
  const next = new Session(parking);
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
  const first = new Session(parking);
  await first.set.begin([]);
  first.write(...changes);
  await first.set.stored();
  parking.ask(({ cause }) => cause === "refused");
  const [large] = parking.parked.map(({ message }) => message.id);
  await first.set.retry.stop(AbortSignal.timeout(1_000));
  const next = new Session(parking);
  await next.set.begin([large!]);
  expect(next.write(...changes)).toEqual(["a", "c"]);
  await waitFor("what waited behind it", () => next.added.length === 1, { timeoutMs: 5_000 });
  expect(next.added).toEqual(["b"]);
  await next.set.retry.stop(AbortSignal.timeout(1_000));
});

test("full: the row that has no place says so", async () => {
  const session = new Session(new MemoryParking());
  await session.set.begin([]);
  const many = [1, 2, 3, 4].map((id) => insert(id, "large"));
  expect(() => session.write(...many)).toThrow("Parking is full: 3 messages");
  await session.set.retry.stop(AbortSignal.timeout(1_000));
});

test("a row whose version was raised by what was never committed goes before later ones of its key", async () => {
  const parking = new MemoryParking();
  const first = new Session(parking);
  await first.set.begin([]);
  first.lastVersion = 2n ** 52n;
  expect(first.write(insert(2, "large"))).toEqual([]);
  await first.set.stored();
  await first.set.retry.stop(AbortSignal.timeout(1_000));
  const next = new Session(parking);
  await next.set.begin([]);
  expect(next.write(insert(2, "large"), insert(2, "b"), insert(3, "c"))).toEqual(["c"]);
  await next.set.retry.stop(AbortSignal.timeout(1_000));
});

const wide = "wide".padEnd(300);
const refusedOnce = async (session: Session, write: () => string[]) => {
  await session.set.begin([]);
  expect(write()).toEqual([wide]);
  await session.brokerRefuses();
  await session.end();
};

test("what a broker refused is parked when it comes again, and later changes of the row are sent once it is taken", async () => {
  const parking = new MemoryParking();
  const first = new Session(parking);
  await refusedOnce(first, () => first.write(insert(2, wide)));
  const next = new Session(parking);
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
  const last = new Session(parking);
  await last.set.begin([]);
  expect(last.write(insert(2, wide), insert(2, `${wide.slice(1)}!`))).toEqual([`${wide.slice(1)}!`]);
  expect(parking.cuts.size).toBe(0);
  await last.end();
});

test("a row of a copy that a broker refused is parked when it is read again, as of another point", async () => {
  const parking = new MemoryParking();
  const first = new Session(parking);
  await refusedOnce(first, () => first.copy(1_000, insert(2, wide)));
  const next = new Session(parking);
  await next.set.begin([]);
  expect(next.copy(2_000, insert(2, wide), insert(3, "c"))).toEqual(["c"]);
  await next.end();
  expect([parking.parked.length, parking.cuts.size]).toEqual([1, 0]);
});

test("a row of a copy that is read again takes the place of what was parked of it, behind changes that came since", async () => {
  const parking = new MemoryParking();
  const first = new Session(parking);
  await first.set.begin([]);
  expect(first.copy(1_000, insert(1, "large"), insert(2, "large"))).toEqual([]);
  first.lastVersion = 1_500_000n;
  expect(first.write(insert(2, "b"))).toEqual([]);
  await first.end();
  // Others are parked in its place, though the parking is full.
  for (const atMs of [2_000_000_000_000, 3_000_000_000_000]) {
    const next = new Session(parking);
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
  const last = new Session(parking);
  await last.set.begin([]);
  last.copy(3_000_000_000_000, insert(1, "large"), insert(2, "large too"));
  last.set.passed(Number.MAX_SAFE_INTEGER, false);
  parking.ask();
  await waitFor("the retry", () => last.added.length === 3, { timeoutMs: 5_000 });
  expect(last.added.filter((text) => text !== "large")).toEqual(["b", "large too"]);
  await last.end();
});

test("a commit waits for what was parked before it, and not for what is parked meanwhile", async () => {
  const parking = new MemoryParking();
  const session = new Session(parking);
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
async function retrying(parking: MemoryParking, texts: readonly string[], everyMs = 0): Promise<Session> {
  const session = new Session(parking, everyMs);
  await session.set.begin([]);
  session.set.passed(Number.MAX_SAFE_INTEGER, false);
  await waitFor("the retry", () => session.added.length >= texts.length, { timeoutMs: 5_000 });
  expect(session.added.toSorted()).toEqual(texts.toSorted());
  return session;
}

async function parkAll(parking: MemoryParking): Promise<void> {
  const session = new Session(parking);
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
  expect(await first.set.refuse({ name: id, lastVersion: 0, parkedId: id }, "still too large")).toBe(true);
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
