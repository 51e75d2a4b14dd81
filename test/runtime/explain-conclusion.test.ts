// What follows from receipts, from what is parked, and from what is on its way.

import { expect, test } from "bun:test";
import type { ExplainedDelivery } from "../../src/connector/explanation.ts";
import type { OpenRequest } from "../../src/connector/receipts.ts";
import { conclude, type KnownOfRow } from "../../src/runtime/explain/conclusion.ts";

const at = "2026-01-31T12:00:01.204Z";
const change = (lsn: string, op = "u") => ({ lsn, committed_at: at, op }) as ExplainedDelivery["change"];
const delivery = (
  key: string,
  outcome: ExplainedDelivery["outcome"],
  of: ExplainedDelivery["change"],
): ExplainedDelivery => ({
  idempotency_key: key,
  at,
  status: 200,
  ms: 1,
  outcome,
  attempts: 1,
  first_at: at,
  change: of,
});
const of = (known: Partial<KnownOfRow>) => {
  const { state, durable, last_change } = conclude({
    deliveries: [],
    parked: [],
    open: [],
    hours: 24,
    ...known,
  });
  return [state, durable, last_change?.lsn ?? null];
};
const retrying: OpenRequest = {
  idempotency_key: "k3",
  state: "Retrying",
  attempts: 2,
  status: 503,
  last_change: { lsn: "0/30", committed_at: at, op: "d" },
};

test("the newest receipt says what became of the last change", () => {
  const old = delivery("k1", "delivered", change("0/10"));
  expect(of({ deliveries: [delivery("k2", "delivered", change("0/20")), old] })).toEqual([
    "Delivered",
    true,
    "0/20",
  ]);
  expect(of({ deliveries: [delivery("k2", "refused", change("0/20")), old] })).toEqual([
    "Refused",
    false,
    "0/20",
  ]);
  expect(of({ deliveries: [delivery("k2", "exhausted", change("0/20"))] })).toEqual([
    "Refused",
    false,
    "0/20",
  ]);
  expect(of({ deliveries: [delivery("k2", "discarded", change("0/20"))] })).toEqual([
    "Discarded",
    false,
    "0/20",
  ]);
  expect(of({ deliveries: [delivery("k2", "cut", change("0/20"))] })).toEqual(["Waiting", false, "0/20"]);
});

test("what is on its way is newer than what was delivered, and what is parked waits", () => {
  const deliveries = [delivery("k1", "delivered", change("0/10"))];
  expect(of({ deliveries, open: [retrying] })).toEqual(["Retrying", false, "0/30"]);
  const parked = (lsn: string) => [{ id: "k2", change: { lsn, committed_at: at, op: "" as const } }];
  expect(of({ deliveries, parked: [{ id: "k2", change: null }] })).toEqual(["Parked", false, "0/10"]);
  expect(of({ deliveries, parked: parked("0/9") })).toEqual(["Parked", false, "0/10"]);
  expect(of({ deliveries, parked: parked("0/20") })).toEqual(["Parked", false, "0/20"]);
});

test("a change that is parked is not said to be sent, though an earlier one of its row still is", () => {
  const message = (lsn: string) => ({ id: lsn, change: { lsn, committed_at: at, op: "" as const } });
  const open = [{ ...retrying, state: "Sending" as const }];
  expect(of({ open, parked: [message("0/40")] })).toEqual(["Parked", false, "0/40"]);
  // Sent again, it is both.
  expect(of({ open, parked: [message("0/30")] })).toEqual(["Sending", false, "0/30"]);
  const unknown = { idempotency_key: "k3", state: "Sending", attempts: 1 } as const;
  expect(of({ open: [unknown], parked: [message("0/40")] })).toEqual(["Sending", false, "0/40"]);
});

test("a parked message that was sent again is durable once it is delivered, though its receipt says less", () => {
  const parked = delivery("k2", "parked", change("0/20"));
  expect(of({ deliveries: [delivery("k2", "delivered", null), parked] })).toEqual([
    "Delivered",
    true,
    "0/20",
  ]);
  const other = delivery("k1", "delivered", change("0/10"));
  expect(of({ deliveries: [other, parked] })).toEqual(["Delivered", false, "0/20"]);
});

test("a message that was refused once more just after it was discarded is discarded", () => {
  const gone = delivery("k2", "discarded", change("0/20"));
  expect(of({ deliveries: [delivery("k2", "parked", null), gone] })).toEqual(["Discarded", false, "0/20"]);
  expect(of({ deliveries: [delivery("k3", "parked", change("0/30")), gone] })).toEqual([
    "Waiting",
    false,
    "0/30",
  ]);
});

test("a message that arrived though it was discarded meanwhile is delivered", () => {
  const gone = delivery("k2", "discarded", change("0/20"));
  const arrived = { ...delivery("k2", "delivered", null), at: "2026-01-31T12:00:00.000Z" };
  const parked = delivery("k2", "parked", change("0/20"));
  expect(of({ deliveries: [gone, arrived, parked] })).toEqual(["Delivered", true, "0/20"]);
  expect(conclude({ deliveries: [gone, arrived], parked: [], open: [], hours: 24 }).summary).toEndWith(
    "was delivered at 2026-01-31T12:00:00.000Z with 200.",
  );
  // Of other messages that says nothing.
  const other = delivery("k1", "delivered", change("0/10"));
  expect(of({ deliveries: [gone, other] })).toEqual(["Discarded", false, "0/20"]);
});

test("another replica may be sending a later change than the one whose receipt is known", () => {
  const known = { parked: [], open: null, elsewhere: "b", hours: 24 };
  const ended = (["delivered", "refused", "discarded"] as const).map((outcome) => ({
    ...known,
    deliveries: [delivery("k1", outcome, change("0/10"))],
  }));
  for (const one of ended) expect(of(one)).toEqual(["Unknown", false, "0/10"]);
  const { summary } = conclude(ended[0]!);
  expect(summary).toContain(`was delivered at ${at} with 200. Replica b runs the connector`);
  expect(conclude({ ...known, deliveries: [] }).summary).toContain("ask it");
  // What is not over says enough.
  expect(of({ ...known, parked: [{ id: "k2", change: null }] })[0]).toBe("Parked");
  expect(of({ ...known, deliveries: [delivery("k2", "parked", change("0/20"))] })[0]).toBe("Waiting");
});

test("nothing is guessed", () => {
  expect(of({})).toEqual(["Unknown", false, null]);
  const { summary } = conclude({ deliveries: [], parked: [], open: null, hours: 0 });
  expect(summary).toContain("keeps no receipts");
});

test("the sentence says where a message is", () => {
  const kafka = { topic: "shop.orders", partition: 2, offset: 17 };
  const sentence = (place: { readonly offset: number | null }) => {
    const message = { ...delivery("k1", "delivered", change("0/10")), status: null };
    const deliveries = [{ ...message, kafka: { ...kafka, ...place } }];
    return conclude({ deliveries, parked: [], open: [], hours: 24 }).summary;
  };
  expect(sentence(kafka)).toEndWith(`delivered at ${at}, to partition 2 of topic shop.orders at offset 17.`);
  expect(sentence({ offset: null })).toEndWith(`delivered at ${at}, to partition 2 of topic shop.orders.`);
});
