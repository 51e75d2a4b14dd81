// Many lives of a delivery that parks, killed at random moments, with receivers that refuse by key, by size and by time, people who retry and
// discard, a parking that may be full, and a table that leaves the selection and enters it. Each row is taken once, in the order of its key, or
// was discarded; none is parked twice.

import { expect, test } from "bun:test";
import type { Checkpoint } from "../../../../src/change/checkpoint.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import type { Relation } from "../../../../src/change/relation.ts";
import type { ParkingAnswer } from "../../../../src/connector/parking.ts";
import type { SavedRecord } from "../../../../src/connector/saved-record.ts";
import { MillraceError } from "../../../../src/errors/millrace-error.ts";
import type { DeliveryMessage } from "../../../../src/sink/delivery/delivery-messages.ts";
import { DeliverySession } from "../../../../src/sink/delivery/delivery-session.ts";
import type { FromDelivery, LineBatch } from "../../../../src/sink/delivery/line/line-messages.ts";
import type { AttemptOutcome } from "../../../../src/sink/delivery/order/attempt.ts";
import { requestTransport } from "../../../../src/sink/delivery/order/request-transport.ts";
import { parkingStoreOf } from "../../../../src/sink/delivery/parking/parking-store.ts";
import type { OutgoingRequest } from "../../../../src/sink/delivery/stream/outgoing-request.ts";
import { bodyChunks } from "../../../../src/sink/format/values/message-body.ts";
import { webhookSettings } from "../../../../src/sink/webhook/webhook-settings.ts";
import {
  batches,
  type FixtureChange,
  type FixtureTransaction,
  relation,
  transaction,
} from "../../../support/rows/batch-fixture.ts";
import { MemoryParking } from "../../../support/webhook/memory-parking.ts";
import { withSave } from "../../../support/webhook/memory-record.ts";
import { webhookConnector } from "../../../support/webhook/webhook-rig.ts";

const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1_699_999_999_999_999n };
const plays = Number(process.env.MILLRACE_PARKING_PLAYS ?? 12);
const firstSeed = Number(process.env.MILLRACE_PARKING_SEED ?? 1);

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

const columns = [
  ["id", 23, "integer"],
  ["v", 25, "text"],
] as const;
const keyed = [0, 1].map((n) => relation(`t${n}`, columns, { id: 16_400 + n }));
const keyless = relation("log", columns, { id: 16_402, key: [], replicaIdentity: "nothing" });
const tables: readonly Relation[] = [...keyed, keyless];
/** What leaves and enters. */
const leaving = keyed[1]!;

/** `hasDeletes`: otherwise each row has a value of its own. */
function history(random: () => number, count: number, hasDeletes: boolean): FixtureTransaction[] {
  let n = 0;
  const change = (): FixtureChange => {
    n++;
    const after = [String(Math.floor(random() * 8)), `v${n}`];
    if (random() < 0.1) return { kind: "insert", relation: keyless, after };
    const table = keyed[Math.floor(random() * keyed.length)]!;
    const kind = hasDeletes ? random() : 0.7 * random();
    if (kind < 0.7) return { kind: kind < 0.4 ? "insert" : "update", relation: table, after };
    const before = [after[0]!, null];
    if (kind < 0.85) return { kind: "delete", relation: table, before, oldIsKey: true };
    const moved = [String(10 + Math.floor(random() * 8)), `v${n}`];
    return { kind: "update", relation: table, before, oldIsKey: true, after: moved };
  };
  return Array.from({ length: count }, (_, i) =>
    transaction(i + 1, Array.from({ length: random() < 0.15 ? 30 : 1 + Math.floor(random() * 4) }, change)),
  );
}

interface TakenRow {
  readonly table: string;
  readonly id: number;
  /** Where selections change, versions do too: then this is the row's value, which rises like them. */
  readonly version: number;
}

class World {
  record: SavedRecord | null = null;
  readonly parking = new MemoryParking();
  /** Bodies by key, as first taken. */
  readonly taken = new Map<string, string>();
  readonly rows: TakenRow[] = [];
  readonly discarded: TakenRow[] = [];
  refuses: (row: TakenRow, body: string) => boolean = () => false;

  constructor(
    readonly random: () => number,
    readonly isSelecting = false,
  ) {}

  rowsOf(table: string, body: string): TakenRow[] {
    const parsed = JSON.parse(body) as BodyRow | BodyRow[];
    return (Array.isArray(parsed) ? parsed : [parsed])
      .map(({ id, v, _sm_version }) => ({
        table,
        id,
        version: this.isSelecting ? Number(v.slice(1)) : _sm_version,
      }))
      .filter(() => !this.isSelecting || table !== leaving.name);
  }

  discardOne(): void {
    const parked = this.parking.parked;
    const one = parked[Math.floor(this.random() * parked.length)];
    if (!one) return;
    const { message } = one;
    this.discarded.push(...this.rowsOf(message.table, textOf(message.body)));
    this.parking.discard(message.id);
  }

  take(table: string, key: string, body: string): "taken" | "refused" {
    const known = this.taken.get(key);
    if (known !== undefined) {
      if (!this.isSelecting) expect(body).toBe(known);
      return "taken";
    }
    const rows = this.rowsOf(table, body);
    if (rows.some((row) => this.refuses(row, body))) return "refused";
    this.taken.set(key, body);
    this.rows.push(...rows);
    return "taken";
  }
}

const textOf = (body: Uint8Array) => new TextDecoder().decode(Bun.zstdDecompressSync(body));

interface BodyRow {
  readonly id: number;
  readonly v: string;
  readonly _sm_version: number;
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const never = <T>() => new Promise<T>(() => undefined);

interface LifeOptions {
  readonly maxRows: number;
  readonly maxMessages: number;
  /** Beyond these a request is parked as it is; 0: it never is. */
  readonly maxRetries: number;
  readonly isLast: boolean;
}

async function live(world: World, transactions: readonly FixtureTransaction[], options: LifeOptions) {
  const { random } = world;
  const alive = { yes: true };
  const underWay = new Set<string>();
  const attempt = async (request: OutgoingRequest): Promise<AttemptOutcome> => {
    if (!alive.yes) return await never();
    const touched = [...new Set(request.touches)].map((hash) => `${request.table}/${hash}`);
    for (const row of touched) expect(underWay.has(row)).toBeFalse();
    for (const row of touched) underWay.add(row);
    await pause(random() * 2);
    for (const row of touched) underWay.delete(row);
    if (!alive.yes && random() < 0.5) return await never();
    const at = new Date().toISOString();
    if (random() < 0.08)
      return { kind: "retry", reason: "lost", retryAfterMs: 0, note: { at, error: "lost" } };
    const body = Buffer.concat([...bodyChunks(request.body)]).toString();
    const answer = world.take(request.table, request.idempotencyKey, body);
    if (random() < 0.08) return { kind: "retry", reason: "503", retryAfterMs: 0, note: { at, status: 503 } };
    if (answer === "taken") return { kind: "delivered" };
    const error = new MillraceError("webhook_rejected", "no");
    return { kind: "rejected", error, note: { at, status: 400, answer: "no" } };
  };
  const stored = async <T>(work: () => T): Promise<T> => {
    await pause(random() * 2);
    if (!alive.yes) return await never();
    const result = work();
    await pause(random() * 2);
    return alive.yes ? result : await never();
  };
  const store = parkingStoreOf((call) => stored((): ParkingAnswer => world.parking.answer(call)));
  const base = webhookConnector("http://127.0.0.1:1", {
    batch: { max_batch_size: options.maxRows },
    on_exhausted: { park: { max_messages: options.maxMessages } },
    retry: {
      initial_backoff_ms: 1,
      max_backoff_ms: 3,
      max_retries: options.maxRetries,
      max_retry_duration_ms: 0,
    },
  });
  const connector = {
    ...base,
    limits: { ...base.limits, cdc: { flush_interval_ms: 3, max_buffer_rows: 0 } },
  };
  const settings = webhookSettings(connector);
  const monotonic = () => performance.now();
  const transport = requestTransport(settings, attempt, {
    monotonic,
    random,
    parking: { connectorId: "hooks", store },
    sleep: async (ms, signal) => {
      await pause(Math.min(ms, 4));
      signal.throwIfAborted();
    },
  });
  const failures: string[] = [];
  const answers = new Map<number, (answer: unknown) => void>();
  const record = {
    load: () => stored(() => world.record),
    save: (text: string, parts?: ReadonlyMap<string, string | null>) =>
      stored(() => {
        world.record = withSave(world.record, text, parts);
      }),
  };
  const tools = { store: record, log: () => undefined, monotonic, transport };
  const delivery = new DeliverySession(settings, tools, (message: FromDelivery) => {
    if (message.type === "reply") answers.get(message.id)?.(message.answer);
    if (message.type !== "failed" && message.type !== "refused") return;
    failures.push(message.code === "parking_full" ? message.code : message.message);
    // Nobody answers any more.
    for (const answer of answers.values()) answer(null);
  });
  void delivery.run();
  let lastId = 0;
  const question = (message: object) =>
    new Promise<unknown>((resolve) => {
      answers.set(++lastId, resolve);
      delivery.receive({ ...message, id: lastId } as DeliveryMessage);
    });
  const checkpoint = (await question({ type: "open" })) as Checkpoint | null;
  if (!checkpoint) await question({ type: "begin", checkpoint: start });
  tables.forEach((each, handle) => {
    delivery.receive({ type: "relation", handle, relation: each });
  });
  const leftOut = world.isSelecting && random() < 0.5 ? leaving : null;
  const parts = batches(transactions, {
    from: checkpoint ?? start,
    perBatch: 1 + Math.floor(random() * 30),
    leftOut,
  });
  const some = options.isLast ? parts : parts.slice(0, Math.ceil(parts.length * random()));
  for (const batch of some) {
    const relations = batch.relations.map((each) => tables.indexOf(each));
    delivery.receive({ type: "changes", batch: { ...batch, relations } as LineBatch, bytes: 0 });
    if (random() < 0.3) await pause(random() * 5);
    const mood = random();
    if (mood < 0.1) world.parking.ask(() => random() < 0.5);
    else if (mood < 0.15) world.discardOne();
  }
  if (options.isLast) {
    world.parking.ask();
    await question({ type: "flush" });
    for (const deadline = Date.now() + 10_000; world.parking.parked.length > 0 && Date.now() < deadline; ) {
      world.parking.ask();
      await pause(5);
    }
  } else await pause(random() * 40);
  alive.yes = false;
  expect(failures.filter((code) => code !== "parking_full" || options.isLast)).toEqual([]);
  void delivery.stop(AbortSignal.abort(new Error("killed")));
}

/** Every row with its version, as one life without a fault sends them. */
async function allRows(
  transactions: readonly FixtureTransaction[],
  isSelecting: boolean,
): Promise<TakenRow[]> {
  const world = new World(() => 0.5, isSelecting);
  await live(world, transactions, { maxRows: 10, maxMessages: 1000, maxRetries: 0, isLast: true });
  return world.rows;
}

const nameOf = ({ table, id, version }: TakenRow) => `${table} ${id} ${version}`;
const sorted = (rows: readonly TakenRow[]) => rows.map(nameOf).toSorted();

/** Rows of a table without a key and without old rows are only added, in any order. */
function expectOrder(rows: readonly TakenRow[]): void {
  const last = new Map<string, number>();
  for (const row of rows) {
    if (row.table === "log") continue;
    const key = `${row.table} ${row.id}`;
    if ((last.get(key) ?? 0) >= row.version) throw new Error(`${nameOf(row)} came after ${last.get(key)}`);
    last.set(key, row.version);
  }
}

async function play(seed: number, isSelecting: boolean): Promise<void> {
  const random = seeded(seed);
  const transactions = history(random, 40, !isSelecting);
  const all = await allRows(transactions, isSelecting);
  const world = new World(random, isSelecting);
  // With other batches the requests of rows that were delivered have other keys: then their versions tell that they are the same.
  const isRecut = seed % 5 === 4;
  const sizes = [0, 1, 5, 20];
  // With one row a body is another one under the same key.
  const others = [0, 2, 5, 20];
  const maxRows = () => (isRecut ? others[Math.floor(random() * 4)]! : sizes[seed % 4]!);
  for (let life = 0; life < 6; life++) {
    const isLast = life === 5;
    const ids = new Set(Array.from({ length: 3 }, () => Math.floor(random() * 18)));
    const mood = random();
    world.refuses = (row, body) => {
      if (isLast || mood < 0.15) return false;
      if (mood < 0.25) return true;
      if (mood < 0.35) return body.length > 400;
      return ids.has(row.id);
    };
    const maxMessages = random() < 0.2 ? 8 : 1000;
    const maxRetries = [0, 1, 3][Math.floor(random() * 3)]!;
    const bounds = { maxMessages: isLast ? 1000 : maxMessages, maxRetries };
    await live(world, transactions, { maxRows: maxRows(), ...bounds, isLast });
  }
  expect(world.parking.parked.map(({ message }) => message.id)).toEqual([]);
  const discarded = new Set(world.discarded.map(nameOf));
  const taken = world.rows.map(nameOf);
  if (!isRecut) expect(new Set(taken).size).toBe(taken.length);
  const ended = new Set([...taken, ...discarded]);
  expect(sorted(all).filter((row) => !ended.has(row))).toEqual([]);
  expectOrder(world.rows.filter((row, i) => taken.indexOf(nameOf(row)) === i));
  const parked = world.parking.parkedEver.flatMap(({ table, body }) =>
    world.rowsOf(table, textOf(body)).map(nameOf),
  );
  expect(new Set(parked).size).toBe(parked.length);
}

for (let seed = firstSeed; seed < firstSeed + plays; seed++)
  test.each([
    [seed, "that stays", false],
    [seed, "that changes", true],
  ] as const)(
    "play %i, with a selection %s",
    async (_, __, isSelecting) => {
      await play(seed, isSelecting);
    },
    30_000,
  );
