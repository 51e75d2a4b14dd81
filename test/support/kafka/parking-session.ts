// A session of the parking of rows that Kafka cannot take, over a parking in memory that outlives it. No broker is needed.

import { expect } from "bun:test";
import type { ChangeBatch } from "../../../src/change/change-batch.ts";
import { lsn } from "../../../src/change/lsn.ts";
import type { ParkingCall } from "../../../src/connector/parking.ts";
import type { MillraceError } from "../../../src/errors/millrace-error.ts";
import { CopyRows } from "../../../src/sink/delivery/copy/copy-rows.ts";
import { ChangeRows } from "../../../src/sink/delivery/stream/change-rows.ts";
import type { PlannedRow } from "../../../src/sink/delivery/stream/request-plan.ts";
import type { StreamOutlet } from "../../../src/sink/delivery/transport.ts";
import { MessageWriter } from "../../../src/sink/kafka/message-writer.ts";
import { isRefusal } from "../../../src/sink/kafka/parking/kafka-parking.ts";
import type { KafkaParkingSet } from "../../../src/sink/kafka/parking/kafka-parking-set.ts";
import type { MessageRow } from "../../../src/sink/kafka/parking/refused-records.ts";
import type { ProducerLog } from "../../../src/sink/kafka/produce/producer-log.ts";
import { batches, type FixtureChange, transaction } from "../rows/batch-fixture.ts";
import type { MemoryParking } from "../webhook/memory-parking.ts";
import { parkingSetOver, settings, table, textOf, tooLarge } from "./parking-table.ts";

export class ParkingSession {
  readonly added: string[] = [];
  readonly failures: string[] = [];
  commits = 0;
  /** What is sent again fails with it. Null: it does not. */
  failsAgain: MillraceError | null = null;
  /** Of its clock, before the real one. */
  aheadMs = 0;
  /** The state answers once it has resolved. */
  hold: (call: ParkingCall) => Promise<void> = async () => {};
  readonly set: KafkaParkingSet;
  readonly #writer: MessageWriter;
  /** Of the message that was added last. */
  #row: MessageRow | null = null;

  constructor(parking: MemoryParking, retryEveryMs = 0) {
    this.set = parkingSetOver(parking, {
      retryEveryMs,
      monotonic: () => performance.now() + this.aheadMs,
      hold: (call) => this.hold(call),
      commit: () => {
        this.commits++;
      },
      failed: (error) => this.failures.push(error.code),
      add: async (_, row, id, added) => {
        this.added.push(textOf(row));
        expect(id).toHaveLength(36);
        if (this.failsAgain) throw this.failsAgain;
        added();
      },
    });
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
  /** The transaction that is written. */
  place = 1;

  /** Rows that hold "large" are refused. Returns those that are sent. */
  write(...changes: FixtureChange[]): string[] {
    const rows = new ChangeRows(Number(this.lastVersion), settings.encoding, [], null);
    return this.#send(changes, (batch, i, outlet) => rows.add(batch, i, table, outlet));
  }

  /** As `write`: rows of a copy, as of a point. */
  copy(atMs: number, ...rows: FixtureChange[]): string[] {
    const origin = {
      version: atMs * 1_000,
      timeUs: atMs * 1_000,
      lsn: lsn(1n),
      behind: { commitLsn: lsn(BigInt(atMs)), ordinal: -1 },
    };
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
        const text = textOf(row);
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
      addBoundary: () => {},
      tookVersion: () => {},
      seal: () => {},
      hasCapacity: true,
      untilCapacity: async () => {},
    };
    const from = { resumeLsn: lsn(1n), partial: null, lastVersion: this.lastVersion };
    for (const batch of batches([transaction(this.place, changes)], { from }))
      for (let i = 0; i < batch.count; i++) add(batch, i, outlet);
    return sent;
  }

  async end(): Promise<void> {
    await this.set.stored();
    await this.set.retry.stop(AbortSignal.timeout(1_000));
  }
}
