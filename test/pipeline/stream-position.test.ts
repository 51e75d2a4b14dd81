// Waiting for a stream to come to a place: one that stands still is given up, unless it is its carrier that it waits for.

import { expect, test } from "bun:test";
import type { ChangeBatch } from "../../src/change/change-batch.ts";
import { lsn } from "../../src/change/lsn.ts";
import { StreamPosition } from "../../src/pipeline/stream-position.ts";
import { waitFor } from "../support/wait-for.ts";

const patienceMs = 20;
const batchTo = (at: bigint) => ({ resumeLsn: lsn(at) }) as ChangeBatch;

test("a stream that stands still is given up, but not while a batch of it is being written", async () => {
  const position = new StreamPosition(lsn(1n), { reach: () => {} }, patienceMs);
  const { signal } = new AbortController();
  await expect(position.passed(lsn(5n), signal)).rejects.toMatchObject({ code: "source_timeout" });

  position.isPaused = true;
  let outcome = "waits";
  const passed = position.passed(lsn(5n), signal).then(
    () => {
      outcome = "passed";
    },
    () => {
      outcome = "given up";
    },
  );
  const until = performance.now() + 5 * patienceMs;
  await waitFor("its patience to be over", () => performance.now() > until);
  expect(outcome).toBe("waits");
  position.wrote(batchTo(3n));
  position.isPaused = false;
  position.wrote(batchTo(5n));
  await passed;
  expect(outcome).toBe("passed");
});
