// What `millrace explain` prints.

import { expect, test } from "bun:test";
import { explanationLines } from "../../src/cli/explain-command.ts";
import type { Explanation } from "../../src/connector/explanation.ts";

const at = "2026-01-31T12:00:01.204Z";
const change = { lsn: "0/1F3A208", committed_at: at, op: "u" } as const;
const delivered: Explanation = {
  schema: "public",
  name: "orders",
  key: { id: 7 },
  state: "Delivered",
  summary: "It was delivered.",
  last_change: change,
  durable: true,
  parked: [],
  open: [],
  receipts: { hours: 24, since: at },
  deliveries: [
    {
      idempotency_key: "k1",
      at,
      status: 200,
      ms: 12,
      outcome: "delivered",
      attempts: 1,
      first_at: at,
      change,
    },
  ],
};

test("the state comes first, then a sentence, then the requests", () => {
  expect(explanationLines(delivered, 200)).toEqual([
    'public.orders {"id":7}: DELIVERED',
    "It was delivered.",
    `AT                        OUTCOME    STATUS  MS  ATTEMPTS  CHANGE       IDEMPOTENCY KEY\n${at}  delivered  200     12  1         u 0/1F3A208  k1`,
    `Receipts go back to ${at}.`,
  ]);
});

test("what is on its way is told, and what is not known here", () => {
  const open = [{ idempotency_key: "k2", state: "Retrying" as const, attempts: 3, last_at: at }];
  expect(explanationLines({ ...delivered, state: "Retrying", open }, 200)[2]).toBe(
    `now: retrying k2, attempt 3 at ${at}`,
  );
  expect(explanationLines({ ...delivered, open: null }, 200)[2]).toContain("not known here");
  expect(explanationLines({ ...delivered, parked: ["p1", "p2"] }, 200)[2]).toBe("parked: p1 p2");
});

test("of a message it is told where it is", () => {
  const kafka = { topic: "shop.orders", partition: 2, offset: 17 };
  const [delivery] = delivered.deliveries;
  const deliveries = [
    { ...delivery!, status: null, kafka },
    { ...delivery!, status: null, kafka: { ...kafka, offset: null } },
  ];
  const [, , table = ""] = explanationLines({ ...delivered, deliveries }, 200);
  const lines = table.split("\n").map((line) => line.split(/ {2,}/)[2]);
  expect(lines).toEqual(["MESSAGE", "shop.orders[2]@17", "shop.orders[2]@?"]);
});
