// What is sent of a parked message.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { neverAborted } from "../../../../src/concurrency/until-aborted.ts";
import { type Attempt, describeRequest } from "../../../../src/sink/delivery/order/attempt.ts";
import { ParkedAttempts } from "../../../../src/sink/delivery/parking/parked-attempts.ts";
import { rowPoint } from "../../../../src/sink/delivery/parking/row-place.ts";
import { parkedEntry } from "../../../support/webhook/parked-entry.ts";

const places = [8, 12, 16].map((step) => rowPoint(lsn(0x10n), step, 1, false).place);

test.each([
  [false, "3 rows of public.t at 0/10, change 2 (Idempotency-Key 1)"],
  [true, "3 rows of public.t of the table's copy (Idempotency-Key 1)"],
])("a message is described by its own rows; of a copy: %p", async (isOfCopy, described) => {
  const sent: string[] = [];
  const attempt: Attempt = async (request) => {
    sent.push(describeRequest(request));
    return { kind: "delivered" };
  };
  const attempts = new ParkedAttempts({
    attempt,
    policy: { maxRetries: 0, maxRetryDurationMs: 0, initialBackoffMs: 1, maxBackoffMs: 1 },
    monotonic: () => 0,
    sleep: async () => {},
    random: () => 0,
  });
  const message = parkedEntry("1", 1, [1], { places, isOfCopy });
  expect((await attempts.deliver(message, new Uint8Array(), neverAborted, neverAborted)).kind).toBe(
    "delivered",
  );
  expect(sent).toEqual([described]);
});
