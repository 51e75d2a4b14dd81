// Receipts of a transaction are there when it was committed, and only then, wherever everything dies.

import { expect, test } from "bun:test";
import fc from "fast-check";
import type { ReceiptBatches } from "../../../../src/connector/receipts.ts";
import type { ChangedParts, SavedRecord } from "../../../../src/connector/saved-record.ts";
import { ReceiptKeeping } from "../../../../src/sink/delivery/receipts/receipt-keeping.ts";
import { commitOf } from "../../../../src/sink/delivery/receipts/receipt-rows.ts";
import { PartitionQueue } from "../../../../src/sink/kafka/produce/round.ts";
import { KafkaReceipts } from "../../../../src/sink/kafka/receipts/kafka-receipts.ts";
import { MessageReceipts } from "../../../../src/sink/kafka/receipts/message-receipts.ts";
import { dropStaged, StagedReceipts } from "../../../../src/sink/kafka/receipts/staged-receipts.ts";
import type { CheckpointStore } from "../../../../src/sink/sink.ts";
import { ordersTable, plannedRow } from "../../../support/kafka/planned-rows.ts";
import { MemoryReceipts } from "../../../support/webhook/memory-receipts.ts";

const dead = new Error("it died");

/** What outlives everything: the state, and Kafka, of which it is known which commit was the last. */
class World {
  text: string | null = null;
  readonly parts = new Map<string, string>();
  readonly receipts = new MemoryReceipts();
  lastCommit: string | null = null;
  readonly committed: number[] = [];
  offset = 0;
  /** After so many steps everything dies. */
  stepsLeft = Number.POSITIVE_INFINITY;

  step(): void {
    if (this.stepsLeft <= 0) throw dead;
    this.stepsLeft--;
  }

  readonly state: CheckpointStore = {
    load: async (): Promise<SavedRecord | null> =>
      this.text === null ? null : { text: this.text, parts: new Map(this.parts) },
    save: async (text: string, parts: ChangedParts = new Map(), receipts: ReceiptBatches = new Map()) => {
      // Whoever does not wait for it is faster.
      await new Promise((resolve) => setImmediate(resolve));
      this.step();
      this.text = text;
      for (const [name, part] of parts)
        if (part === null) this.parts.delete(name);
        else this.parts.set(name, part);
      this.receipts.add(receipts);
      this.step();
    },
  };

  get saved(): readonly number[] {
    return this.receipts
      .list()
      .flatMap(({ rows }) =>
        Array.from({ length: rows.count }, (_, row) => Number(commitOf(rows, row)?.lsn)),
      );
  }
}

/** One life of a sink. */
class Life {
  readonly queue = new PartitionQueue("orders", 0);
  readonly gathered = new MessageReceipts();
  readonly keeping: ReceiptKeeping;
  readonly staged: StagedReceipts;
  #ready: Promise<unknown> = Promise.resolve();
  #unsent = 0;
  #uncommitted: number[] = [];

  constructor(private readonly world: World) {
    const ask = async () => {};
    this.keeping = new ReceiptKeeping({ maxAgeMs: 1e9, maxBytes: 1e9, ask, nowMs: () => 0 });
    const log = {
      seal: async () => {
        world.step();
        this.queue.offsets.took(this.#unsent, world.offset);
        world.offset += this.#unsent;
        this.#unsent = 0;
      },
      waitFor: (ready: Promise<unknown>) => {
        this.#ready = ready;
      },
    };
    this.staged = new StagedReceipts({
      gathered: this.gathered,
      book: this.keeping.book,
      log,
      record: this.keeping.store(world.state),
      newId: () => Bun.randomUUIDv7(),
      nowMs: () => 5,
      monotonic: () => 7,
    });
  }

  async begin(): Promise<void> {
    await this.staged.begin(await this.world.state.load(), this.world.lastCommit, () => "mark");
  }

  add(id: number): void {
    this.staged.makeRoom();
    this.gathered.add(ordersTable, plannedRow(id), this.queue);
    this.queue.added++;
    this.#unsent++;
    this.#uncommitted.push(id);
  }

  async commit(): Promise<void> {
    const { world } = this;
    const commit = this.staged.stage();
    await this.#ready;
    world.step();
    world.lastCommit = this.staged.lastCommit;
    world.committed.push(...this.#uncommitted);
    this.#uncommitted = [];
    world.step();
    if (commit) await this.staged.committed(commit);
  }
}

const work = fc.record({
  commits: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 6 }),
  confirms: fc.boolean(),
  steps: fc.integer({ min: 0, max: 30 }),
});

test("wherever it dies, what was committed has one receipt, and nothing else has one", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(work, { minLength: 1, maxLength: 4 }), async (lives) => {
      const world = new World();
      let id = 0;
      for (const { commits, confirms, steps } of lives) {
        world.stepsLeft = steps;
        const life = new Life(world);
        try {
          await life.begin();
          for (const rows of commits) {
            for (let i = 0; i < rows; i++) life.add(++id);
            await life.commit();
            if (confirms) await life.staged.confirm();
          }
        } catch (error) {
          if (error !== dead) throw error;
        }
        life.keeping.book.close();
      }
      world.stepsLeft = Number.POSITIVE_INFINITY;
      const last = new Life(world);
      await last.begin();
      last.keeping.book.close();
      expect([...world.saved].toSorted((a, b) => a - b)).toEqual(world.committed.toSorted((a, b) => a - b));
      expect(world.parts.size).toBe(0);
    }),
    { numRuns: 300 },
  );
});

test("a large transaction is staged in pieces, and each message has its offset", async () => {
  const world = new World();
  const life = new Life(world);
  await life.begin();
  const rows = 150_000;
  for (let id = 1; id <= rows; id++) life.add(id);
  await life.commit();
  await life.staged.confirm();
  life.keeping.book.close();
  expect(world.receipts.batches.size).toBe(3);
  const receipts = world.receipts.list();
  expect(receipts.map(({ rows: { count } }) => count)).toEqual([65_536, 65_536, 18_928]);
  expect(receipts[0]).toMatchObject({ topic: "orders", key: null, outcome: "delivered", firstAtMs: 5 });
  const offsets = receipts.flatMap((each) => Array.from(each.rows.offsets ?? []));
  expect(offsets).toEqual(Array.from({ length: rows }, (_, i) => i));
  expect(world.parts.size).toBe(0);
});

test("a row whose transaction is not committed is being sent", async () => {
  const world = new World();
  const life = new Life(world);
  await life.begin();
  life.add(1);
  const question = { schema: "public", name: "orders", key: ["1"] };
  expect(life.gathered.find(question)).toMatchObject([{ state: "Sending", last_change: { op: "c" } }]);
  world.stepsLeft = 3;
  await expect(life.commit()).rejects.toBe(dead);
  expect(life.gathered.find(question)).toEqual([]);
  expect(life.staged.find(question)).toMatchObject([{ state: "Sending", last_change: { op: "c" } }]);
  expect(life.staged.find({ ...question, key: ["2"] })).toEqual([]);
  life.keeping.book.close();
});

test("a session that ends before it has begun leaves what the state has", async () => {
  const world = new World();
  world.text = "mark";
  const place = { maxAgeMs: 1e9, maxBytes: 1e9, ask: async () => {}, nowMs: () => 0 };
  const log = { seal: async () => {}, waitFor: () => {} };
  const receipts = new KafkaReceipts({
    place,
    isTransactional: true,
    state: world.state,
    log,
    monotonic: () => 0,
  });
  await receipts.close();
  expect(world.text).toBe("mark");
});

test("a run without receipts drops what is staged, and nothing else", async () => {
  const world = new World();
  world.text = "mark";
  world.parts.set("receipts 1 0", "").set("public.orders", "{}");
  await dropStaged(world.state, await world.state.load());
  expect([...world.parts.keys()]).toEqual(["public.orders"]);
});
