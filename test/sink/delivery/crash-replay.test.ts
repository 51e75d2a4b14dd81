// Many lives of a delivery in one process: killed at random moments, with random answers, batches cut at
// random and time that passes at random. What the receiver took, deduplicated by key alone, must be every
// change exactly once.

import { expect, test } from "bun:test";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { CopyTextParser } from "../../../src/change/copy-text.ts";
import { type Lsn, lsn } from "../../../src/change/lsn.ts";
import type { Relation } from "../../../src/change/relation.ts";
import type { SavedRecord } from "../../../src/connector/saved-record.ts";
import type { CopyMode, StreamDuring } from "../../../src/sink/copy-sink.ts";
import type { DeliveryMessage } from "../../../src/sink/delivery/delivery-messages.ts";
import { DeliverySession } from "../../../src/sink/delivery/delivery-session.ts";
import type { DeliveryTools } from "../../../src/sink/delivery/delivery-settings.ts";
import type {
  Answers,
  FromDelivery,
  LineBatch,
  Question,
} from "../../../src/sink/delivery/line/line-messages.ts";
import type { AttemptOutcome } from "../../../src/sink/delivery/order/attempt.ts";
import { requestTransport } from "../../../src/sink/delivery/order/request-transport.ts";
import type { OutgoingRequest } from "../../../src/sink/delivery/stream/outgoing-request.ts";
import { bodyChunks } from "../../../src/sink/format/values/message-body.ts";
import { webhookSettings } from "../../../src/sink/webhook/webhook-settings.ts";
import {
  batches,
  type FixtureChange,
  type FixtureTransaction,
  relation,
  tableShape,
  transaction,
} from "../../support/rows/batch-fixture.ts";
import { asWhole, withSave } from "../../support/webhook/memory-record.ts";
import { webhookConnector } from "../../support/webhook/webhook-rig.ts";

const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1_699_999_999_999_999n };
const decoder = new TextDecoder();

/** A small generator of repeatable numbers in [0, 1) (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const tables: readonly Relation[] = [0, 1, 2].map((n) =>
  relation(
    `t${n}`,
    [
      ["id", 23, "integer"],
      ["v", 25, "text"],
    ],
    { id: 16_400 + n },
  ),
);

/** Transactions of random sizes over few keys, with updates, deletes and changes of the key. */
function history(random: () => number, count: number): FixtureTransaction[] {
  let n = 0;
  const change = (): FixtureChange => {
    const table = tables[Math.floor(random() * tables.length)]!;
    const id = String(Math.floor(random() * 6));
    const kind = random();
    n++;
    if (kind < 0.4) return { kind: "insert", relation: table, after: [id, `v${n}`] };
    if (kind < 0.7) return { kind: "update", relation: table, after: [id, `v${n}`] };
    if (kind < 0.85) return { kind: "delete", relation: table, before: [id, null], oldIsKey: true };
    const to = String(10 + Math.floor(random() * 6));
    return { kind: "update", relation: table, before: [id, null], oldIsKey: true, after: [to, `v${n}`] };
  };
  return Array.from({ length: count }, (_, i) => {
    const size = random() < 0.1 ? 40 : 1 + Math.floor(random() * 4);
    // Two transactions may have one commit time, and clocks may go back.
    const time = 1_700_000_000_000_000n + BigInt(Math.floor(random() * 5000));
    return transaction(
      i + 1,
      Array.from({ length: size }, () => change()),
      time,
    );
  });
}

interface World {
  record: SavedRecord | null;
  /** Body and rows by key, as first taken. */
  readonly taken: Map<string, string>;
  readonly rows: { readonly table: string; readonly row: Record<string, unknown> }[];
  /** For each row, requests that hold it and are under way. */
  readonly underWay: Map<string, number>;
  /** Transactions that any life has been given. */
  given: number;
}

/** One life: from the durable checkpoint until `kill` is due, or to the end. */
async function live(
  world: World,
  transactions: readonly FixtureTransaction[],
  options: { random: () => number; maxRows: number; toTheEnd: boolean; copies?: StreamDuring },
): Promise<void> {
  const { random } = options;
  const alive = { yes: true };
  const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  const attempt = async (request: OutgoingRequest): Promise<AttemptOutcome> => {
    if (!alive.yes) return await new Promise(() => undefined);
    const touched = request.touches.map((hash) => `${request.table}/${hash}`);
    for (const row of new Set(touched)) {
      expect(world.underWay.get(row) ?? 0).toBe(0);
      world.underWay.set(row, 1);
    }
    await pause(random() * 3);
    for (const row of touched) world.underWay.delete(row);
    // What comes of a copy when its life has ended is not sent again, so that nothing would tell it from a row of the next one's.
    if (!alive.yes && request.position === null) return await new Promise(() => undefined);
    const body = decoder.decode(Buffer.concat([...bodyChunks(request.body)]));
    const answer = random();
    // Lost before it arrived; or taken, and only the answer was lost.
    if (answer < 0.1) return { kind: "retry", reason: "lost", retryAfterMs: 0 };
    const known = world.taken.get(request.idempotencyKey);
    if (known !== undefined) expect(body).toBe(known);
    else {
      world.taken.set(request.idempotencyKey, body);
      const parsed = JSON.parse(body) as Record<string, unknown> | Record<string, unknown>[];
      for (const row of Array.isArray(parsed) ? parsed : [parsed]) {
        world.rows.push({ table: request.table, row });
      }
    }
    return answer < 0.2 ? { kind: "retry", reason: "503", retryAfterMs: 0 } : { kind: "delivered" };
  };
  const tools: Omit<DeliveryTools, "transport"> = {
    store: {
      // Now and then as a build before this one has left it.
      load: async () => {
        if (world.record && random() < 0.3) world.record = asWhole(world.record);
        return world.record;
      },
      save: async (text, parts) => {
        await pause(random() * 2);
        if (!alive.yes) return await new Promise(() => undefined);
        world.record = withSave(world.record, text, parts);
        await pause(random() * 2);
        if (!alive.yes) await new Promise(() => undefined);
      },
    },
    log: () => undefined,
    monotonic: () => performance.now(),
  };
  const base = webhookConnector("http://127.0.0.1:1", {
    batch: { max_batch_size: options.maxRows },
    retry: { initial_backoff_ms: 1, max_backoff_ms: 4, max_retries: 0, max_retry_duration_ms: 0 },
  });
  const connector = {
    ...base,
    limits: {
      ...base.limits,
      cdc: { flush_interval_ms: 3, max_buffer_rows: options.maxRows === 0 ? 25 : 0 },
    },
  };
  const answers = new Map<number, (answer: unknown) => void>();
  const failures: FromDelivery[] = [];
  const settings = webhookSettings(connector);
  const transport = requestTransport(settings, attempt, {
    monotonic: tools.monotonic,
    random,
    sleep: (ms) => pause(ms),
  });
  const delivery = new DeliverySession(settings, { ...tools, transport }, (message) => {
    if (message.type === "reply") answers.get(message.id)?.(message.answer);
    if (message.type === "failed" || message.type === "refused") failures.push(message);
  });
  const run = delivery.run();
  let lastId = 0;
  const ask: Ask = (message) => {
    const id = ++lastId;
    return new Promise((resolve) => {
      answers.set(id, resolve as (answer: unknown) => void);
      delivery.receive({ ...message, id } as DeliveryMessage);
    });
  };
  const checkpoint = await ask({ type: "open" });
  if (!checkpoint) await ask({ type: "begin", checkpoint: start });
  const shapes = tables.map((each): Relation => {
    return options.copies === "waits" ? { ...each, replicaIdentity: "nothing" } : each;
  });
  shapes.forEach((each, handle) => {
    delivery.receive({ type: "relation", handle, relation: each });
  });
  const post = (message: DeliveryMessage) => delivery.receive(message);
  const copier = new Copier(ask, post, options, shapes, transactions);
  if (options.copies && !checkpoint) await copier.copyFirst();
  const parts = batches(transactions, {
    from: checkpoint ?? start,
    perBatch: 1 + Math.floor(random() * 30),
  });
  const some = options.toTheEnd ? parts : parts.slice(0, Math.ceil(parts.length * random()));
  let passed: bigint = (checkpoint ?? start).resumeLsn;
  for (const batch of some) {
    const relations = batch.relations.map((each) => tables.indexOf(each));
    delivery.receive({ type: "changes", batch: { ...batch, relations } as LineBatch, bytes: 0 });
    // A batch amid a transaction may not say where the stream is.
    if (batch.resumeLsn > passed) passed = batch.resumeLsn;
    const given = transactions.filter(({ endLsn }) => endLsn <= passed).length;
    // Tasks wait until nothing is a repetition, and begin between two transactions.
    const mayCopy = options.copies && given >= world.given && !batch.endsInTransaction;
    world.given = Math.max(world.given, batch.endsInTransaction ? given + 1 : given);
    // The life may end amid a copy that the stream waits for.
    if (mayCopy && !(await copier.go(batch.resumeLsn))) break;
    if (random() < 0.5) await pause(random() * 5);
  }
  if (options.toTheEnd) {
    // However little was left for this life: one copy comes to its end.
    const at = parts.at(-1)?.resumeLsn ?? checkpoint?.resumeLsn;
    while (options.copies && at !== undefined && copier.ends.length === 0) await copier.go(at);
    copier.giveUp();
    await Promise.all([ask({ type: "flush" }), ...copier.ends]);
    await ask({ type: "flush" });
  } else await pause(random() * 15);
  alive.yes = false;
  world.underWay.clear();
  expect(failures).toEqual([]);
  void delivery.stop(AbortSignal.abort());
  void run;
}

type Ask = <T extends Question["type"]>(question: Extract<Question, { type: T }>) => Promise<Answers[T]>;

/** Copies of tables amid the changes, one after the other. */
class Copier {
  readonly ends: Promise<unknown>[] = [];
  #copies = 0;
  /** Handles of tables whose copies have rows under way. */
  readonly #sending = new Set<number>();
  /** The copy that has started beside the stream, and from where on its points are. */
  #begun: { readonly copy: number; readonly handle: number; readonly after: Lsn } | null = null;

  constructor(
    private readonly ask: Ask,
    private readonly post: (message: DeliveryMessage) => void,
    private readonly options: { random: () => number; toTheEnd: boolean; copies?: StreamDuring },
    private readonly shapes: readonly Relation[],
    private readonly transactions: readonly FixtureTransaction[],
  ) {}

  /** Without rows: the tables are there, and empty. */
  async copyFirst(): Promise<void> {
    for (const handle of tables.keys()) {
      const copy = await this.#begin(handle, "initial", "waits");
      await this.ask({ type: "copy.start", copy, isDivided: false });
      const { resumeLsn: lsn, lastVersion: timeUs } = start;
      await this.ask({ type: "copy.chunk", copy, chunk: copy, part: null, lsn, timeUs });
      await this.ask({ type: "copy.chunk-end", chunk: copy });
      await this.#finish(copy);
    }
  }

  /** Between two batches: what was committed before `at` has been given. False: the life is to end amid a copy. */
  async go(at: Lsn): Promise<boolean> {
    const { random, copies, toTheEnd } = this.options;
    if (this.#begun !== null) {
      const { copy, handle, after } = this.#begun;
      // As of a place that the stream has passed, with some of what came before it touched.
      const point = this.#placeIn(({ endLsn }) => endLsn >= after && endLsn <= at);
      if (point === null) return true;
      this.#begun = null;
      this.ends.push(this.#send(copy, handle, point));
      return true;
    }
    if (random() < 0.5) return true;
    const handle = Math.floor(random() * tables.length);
    // A table has one copy at a time.
    if (this.#sending.has(handle)) return true;
    const copy = await this.#begin(handle, "merge", "runs");
    expect(await this.ask({ type: "copy.start", copy, isDivided: false })).toBeNull();
    if (copies === "runs") {
      this.#begun = { copy, handle, after: at };
      return true;
    }
    // As of a place that the stream has still to come to.
    const ahead = lsn(at + BigInt(Math.floor(random() * 0x2000)));
    const sent = this.#send(
      copy,
      handle,
      this.#placeIn(({ endLsn }) => endLsn >= at && endLsn <= ahead) ?? at,
    );
    if (!toTheEnd && random() < 0.2) return false;
    this.ends.push(sent);
    await sent;
    return true;
  }

  /** What has started and has no rows yet. */
  giveUp(): void {
    if (this.#begun) this.post({ type: "copy.end", copy: this.#begun.copy });
    this.#begun = null;
  }

  async #begin(handle: number, mode: CopyMode, stream: StreamDuring): Promise<number> {
    const copy = ++this.#copies;
    const table = tableShape(this.shapes[handle]!);
    const decided = await this.ask({ type: "copy.begin", copy, handle, table, mode, stream });
    expect(decided).toBe(stream === "runs" ? this.options.copies! : "waits");
    return copy;
  }

  #placeIn(isOne: (transaction: FixtureTransaction) => boolean): Lsn | null {
    const some = this.transactions.filter(isOne);
    return some[Math.floor(this.options.random() * some.length)]?.endLsn ?? null;
  }

  async #send(copy: number, handle: number, lsn: Lsn): Promise<void> {
    this.#sending.add(handle);
    const before = this.transactions.filter(({ endLsn }) => endLsn <= lsn);
    // No two points are taken at one time.
    const timeUs = 1_699_000_000_000_000n + BigInt(Math.floor(this.options.random() * 1e12));
    const table = tables[handle]!;
    await this.ask({ type: "copy.chunk", copy, chunk: copy, part: null, lsn, timeUs });
    const parser = new CopyTextParser(table, { lsn, timeUs });
    const rows = [...finalRows(before)].filter(([key]) => key.startsWith(`${table.name}/`));
    parser.push(Buffer.from(rows.map(([key, v]) => `${key.split("/")[1]}\t${v}\n`).join("")));
    const batch = parser.finish();
    const isIncremental = this.options.copies === "runs";
    if (batch)
      this.post({
        type: "copy.rows",
        chunk: copy,
        isIncremental,
        bytes: 0,
        batch: { ...batch, relations: [handle] },
      });
    await this.ask({ type: "copy.chunk-end", chunk: copy });
    await this.#finish(copy);
    this.#sending.delete(handle);
  }

  async #finish(copy: number): Promise<void> {
    expect(await this.ask({ type: "copy.finish", copy })).toBe("all");
    this.post({ type: "copy.end", copy });
  }
}

/** What is left of each row, by table and key. */
function finalRows(transactions: readonly FixtureTransaction[]): Map<string, unknown> {
  const rows = new Map<string, unknown>();
  for (const change of transactions.flatMap(({ changes }) => changes)) {
    const key = (id: unknown) => `${"relation" in change ? change.relation.name : ""}/${id}`;
    if ("before" in change && change.before) rows.delete(key(change.before[0]));
    if ("after" in change) rows.set(key(change.after[0]), change.after[1]);
  }
  return rows;
}

/** The rows that the history makes, in order, whatever requests they travel in. */
function expectedRows(transactions: readonly FixtureTransaction[]): Record<string, unknown>[] {
  let version = Number(start.lastVersion);
  const rows: Record<string, unknown>[] = [];
  for (const { changes, commitTimeUs } of transactions) {
    const add = (row: { id: unknown; v: unknown }, deleted: boolean) => {
      version = Math.max(version + 1, Number(commitTimeUs));
      rows.push({ id: Number(row.id), v: row.v, _sm_version: version, _sm_deleted: deleted });
    };
    for (const change of changes) {
      if ("before" in change && change.before) add({ id: change.before[0], v: null }, true);
      if ("after" in change) add({ id: change.after[0], v: change.after[1] }, false);
    }
  }
  return rows;
}

for (const maxRows of [0, 1, 7]) {
  test(`every change exactly once under 40 kills, max_batch_size ${maxRows}`, async () => {
    for (let seed = 1; seed <= 5; seed++) {
      const random = seeded(seed * 1000 + maxRows);
      const transactions = history(random, 90);
      const world: World = { record: null, taken: new Map(), rows: [], underWay: new Map(), given: 0 };
      for (let life = 0; life < 8; life++)
        await live(world, transactions, { random, maxRows, toTheEnd: false });
      await live(world, transactions, { random, maxRows, toTheEnd: true });
      const byVersion = (a: Record<string, unknown>, b: Record<string, unknown>) =>
        Number(a._sm_version) - Number(b._sm_version);
      const got = world.rows.map(({ row }) => row).toSorted(byVersion);
      expect(got).toEqual(expectedRows(transactions));
    }
  }, 60_000);
}

for (const copies of ["runs", "waits"] as const) {
  test.each([0, 1, 7])(
    `copies while the stream ${copies} under 24 kills, max_batch_size %p: no row goes back, and changes repeat as they were`,
    async (maxRows) => {
      let copied = 0;
      for (let seed = 1; seed <= 3; seed++) {
        const random = seeded(seed * 1000 + maxRows);
        const transactions = history(random, 90);
        const world: World = { record: null, taken: new Map(), rows: [], underWay: new Map(), given: 0 };
        for (let life = 0; life < 8; life++)
          await live(world, transactions, { random, maxRows, toTheEnd: false, copies });
        await live(world, transactions, { random, maxRows, toTheEnd: true, copies });
        const held = new Map<string, unknown>();
        const versions = new Map<string, number>();
        for (const { table, row } of world.rows) {
          const key = `${table}/${row.id}`;
          const version = Number(row._sm_version);
          expect(version).toBeGreaterThanOrEqual(versions.get(key) ?? 0);
          versions.set(key, version);
          if (row._sm_deleted) held.delete(key);
          else held.set(key, row.v);
        }
        const inOrder = (rows: Map<string, unknown>) => [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1));
        expect(inOrder(held)).toEqual(inOrder(finalRows(transactions)));
        copied += world.rows.length - expectedRows(transactions).length;
      }
      expect(copied).toBeGreaterThan(0);
    },
    60_000,
  );
}
