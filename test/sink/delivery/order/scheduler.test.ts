// What becomes of a request's memory: that it is sent, in which order and how often is shown with real receivers elsewhere.

import { expect, test } from "bun:test";
import type { AttemptOutcome } from "../../../../src/sink/delivery/order/attempt.ts";
import { Scheduler } from "../../../../src/sink/delivery/order/scheduler.ts";
import type { OutgoingRequest } from "../../../../src/sink/delivery/stream/outgoing-request.ts";

const retriesExhausted = "webhook_retries_exhausted";

test("a body is whole for each attempt, and gives its memory back when it is delivered", async () => {
  const outcomes: AttemptOutcome[] = [
    { kind: "retry", reason: "not yet", retryAfterMs: 0 },
    { kind: "delivered" },
  ];
  const lengths: number[] = [];
  const retry = { maxRetries: 3, maxRetryDurationMs: 0, initialBackoffMs: 1, maxBackoffMs: 1 };
  const bounds = { maxInFlight: 1, maxBytes: 1e6, maxRequests: 10, maxRows: 10, maxRetryingPerTable: 1 };
  const scheduler = new Scheduler(
    async ({ body }) => {
      lengths.push(body.length);
      return outcomes.shift()!;
    },
    { retry, retriesExhausted, ...bounds, monotonic: () => 0, sleep: async () => {}, random: () => 0 },
    { retrying: () => {}, failed: (error) => expect(error).toBeNull() },
  );
  const body = new Uint8Array(100_000);
  const place = { schema: "public", table: "t", position: null };
  const request: OutgoingRequest = {
    ...place,
    body,
    rows: 1,
    idempotencyKey: "k",
    touches: [],
    barrier: false,
  };
  const delivered = Promise.withResolvers<number>();
  scheduler.submit(request, () => delivered.resolve(body.length));
  expect(await delivered.promise).toBe(100_000);
  await scheduler.drain(new AbortController().signal);
  expect(lengths).toEqual([100_000, 100_000]);
  expect(body.buffer.byteLength).toBe(0);
});

test("requests beside the stream leave room for its own, and one that a change waits for goes with them", async () => {
  const underWay = new Map<string, () => void>();
  const scheduler = new Scheduler(
    ({ idempotencyKey }) =>
      new Promise<AttemptOutcome>((resolve) =>
        underWay.set(idempotencyKey, () => resolve({ kind: "delivered" })),
      ),
    {
      retriesExhausted,
      retry: { maxRetries: 0, maxRetryDurationMs: 0, initialBackoffMs: 1, maxBackoffMs: 1 },
      maxInFlight: 8,
      maxBytes: 1e6,
      maxRequests: 40,
      maxRows: 1e6,
      maxRetryingPerTable: 1,
      monotonic: () => 0,
      sleep: async () => {},
      random: () => 0,
    },
    { retrying: () => {}, failed: (error) => expect(error).toBeNull() },
  );
  const delivered: string[] = [];
  const submit = (key: string, touched: number, isOfCopy: boolean) => {
    const request: OutgoingRequest = {
      schema: "public",
      table: "t",
      position: null,
      body: new Uint8Array(10),
      rows: 1,
      idempotencyKey: key,
      touches: [touched],
      barrier: false,
    };
    scheduler.submit(request, () => delivered.push(key), false, isOfCopy);
  };
  for (let n = 0; n < 10; n++) submit(`copy ${n}`, n, true);
  expect([...underWay.keys()]).toEqual(["copy 0", "copy 1"]);
  // Their share is full, and the stream's is empty.
  let hasCopyCapacity = false;
  void scheduler.untilCopyCapacity().then(() => {
    hasCopyCapacity = true;
  });
  await Bun.sleep(0);
  expect(hasCopyCapacity).toBe(false);
  expect(scheduler.hasCapacity).toBe(true);
  for (let n = 0; n < 5; n++) submit(`change ${n}`, 100 + n, false);
  submit("waits", 9, false);
  expect([...underWay.keys()].slice(2)).toEqual([
    ...["change 0", "change 1", "change 2", "change 3", "change 4", "copy 9"],
  ]);
  underWay.get("copy 9")!();
  await Bun.sleep(0);
  expect([...underWay.keys()].at(-1)).toBe("waits");
  for (let before = -1; before < underWay.size; ) {
    before = underWay.size;
    for (const end of underWay.values()) end();
    await Bun.sleep(0);
  }
  expect(delivered.length).toBe(16);
});

test("a receiver that is away is told of once for each attempt, however many requests fail of it", async () => {
  const told: (readonly [attempt: number | null, inMs: number | undefined])[] = [];
  let isAway = true;
  const waiting: (() => void)[] = [];
  const scheduler = new Scheduler(
    async ({ table }) =>
      isAway ? { kind: "retry", reason: `503 (rows of ${table})`, retryAfterMs: 0 } : { kind: "delivered" },
    {
      retriesExhausted,
      retry: { maxRetries: 0, maxRetryDurationMs: 0, initialBackoffMs: 500, maxBackoffMs: 9_000 },
      maxInFlight: 8,
      maxBytes: 1e6,
      maxRequests: 40,
      maxRows: 1e6,
      maxRetryingPerTable: 1,
      monotonic: () => 0,
      random: () => 0,
      sleep: () => new Promise((resolve) => waiting.push(resolve)),
    },
    {
      retrying: (attempt, _reason, inMs) => void told.push([attempt, inMs]),
      failed: (error) => expect(error).toBeNull(),
    },
  );
  const tables = ["one", "two", "three"];
  const delivered = tables.map(() => Promise.withResolvers<void>());
  for (const [n, table] of tables.entries()) {
    const body = new Uint8Array(10);
    const request = { schema: "public", table, position: null, body, rows: 1, barrier: false };
    scheduler.submit({ ...request, idempotencyKey: table, touches: [] }, delivered[n]!.resolve);
  }
  const allWait = async () => {
    while (waiting.length < tables.length) await Bun.sleep(1);
  };
  for (let attempts = 1; attempts <= 3; attempts++) {
    await allWait();
    if (attempts === 3) isAway = false;
    for (const goOn of waiting.splice(0)) goOn();
  }
  await Promise.all(delivered.map(({ promise }) => promise));
  await scheduler.drain(new AbortController().signal);
  expect(told.map(([attempt]) => attempt)).toEqual([1, 2, 3, null]);
  const delays = told.map(([, inMs]) => inMs);
  expect(delays).toEqual([250, 500, 1_000, undefined]);
});
