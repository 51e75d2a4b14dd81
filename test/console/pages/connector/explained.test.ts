// The timeline of a row.

import { expect, test } from "bun:test";
import { moments } from "../../../../console/pages/connector/rows/explained.ts";
import type { Explanation } from "../../../../src/connector/explanation.ts";

const at = "2026-01-31T12:00:01.204Z";
const change = { lsn: "0/1F3A208", committed_at: at, op: "u" } as const;

test("what is on its way comes first, then what was, the newest first", () => {
  const explanation: Explanation = {
    schema: "public",
    name: "orders",
    key: { id: 7 },
    state: "Retrying",
    summary: "",
    last_change: change,
    durable: false,
    parked: [],
    receipts: { hours: 24, since: at },
    open: [
      {
        idempotency_key: "k2",
        state: "Retrying",
        attempts: 3,
        last_at: at,
        status: 503,
        last_change: change,
      },
      { idempotency_key: "k3", state: "Waiting", attempts: 0 },
    ],
    deliveries: [
      {
        idempotency_key: "k1",
        at,
        status: 200,
        ms: 12,
        outcome: "delivered",
        attempts: 1,
        first_at: at,
        change: { ...change, op: "c" },
      },
    ],
  };
  expect(moments(explanation).map(({ word, text, key }) => [word, text, key])).toEqual([
    ["waiting", "not tried yet", "k3"],
    ["retrying", "update, 3 attempts, answered 503", "k2"],
    ["delivered", "insert, answered 200 after 12 ms", "k1"],
  ]);
});

test("a message in Kafka shows where it is", () => {
  const kafka = { topic: "shop.orders", partition: 2, offset: 17 };
  const message = {
    idempotency_key: null,
    at,
    status: null,
    ms: 4,
    outcome: "delivered" as const,
    attempts: 1,
    first_at: at,
    change,
    kafka,
  };
  const explanation: Explanation = {
    schema: "public",
    name: "orders",
    key: { id: 7 },
    state: "Delivered",
    summary: "",
    last_change: change,
    durable: true,
    parked: [],
    receipts: { hours: 24, since: at },
    open: [],
    deliveries: [message, { ...message, kafka: { ...kafka, offset: null } }],
  };
  expect(moments(explanation).map(({ text }) => text)).toEqual([
    "update, topic shop.orders, partition 2, offset 17",
    "update, topic shop.orders, partition 2",
  ]);
});
