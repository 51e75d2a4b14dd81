// The timeline of a row.

import { expect, test } from "bun:test";
import { moments } from "../../../../console/pages/connector/rows/explained.ts";
import type { Explanation } from "../../../../src/connector/explanation.ts";

const at = "2026-01-31T12:00:01.204Z";
const change = { lsn: "0/1F3A208", committed_at: at, op: "u" } as const;

test("what is on its way comes first, then what was, the newest first", () => {
  const explanation: Explanation = {
    ...{ schema: "public", name: "orders", key: { id: 7 }, state: "Retrying", summary: "" },
    ...{ last_change: change, durable: false, parked: [], receipts: { hours: 24, since: at } },
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
        ...{
          idempotency_key: "k1",
          at,
          status: 200,
          ms: 12,
          outcome: "delivered",
          attempts: 1,
          first_at: at,
        },
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
