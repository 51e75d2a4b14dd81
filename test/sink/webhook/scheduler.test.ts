// What becomes of a request's memory: that it is sent, in which order and how often is shown with real receivers elsewhere.

import { expect, test } from "bun:test";
import type { OutgoingRequest } from "../../../src/sink/webhook/outgoing-request.ts";
import { Scheduler } from "../../../src/sink/webhook/scheduler.ts";
import type { AttemptOutcome } from "../../../src/sink/webhook/sender.ts";

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
    { retry, ...bounds, monotonic: () => 0, sleep: async () => {}, random: () => 0 },
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
