// Which samples the API gets, from a service whose clock runs a step with each sample.

import { expect, test } from "bun:test";
import type { Reading } from "../../../src/connector/service/run-report.ts";
import { MillraceError } from "../../../src/errors/millrace-error.ts";
import { LiveSampleService } from "../../../src/runtime/samples/sample-service.ts";
import type { ConnectorStore } from "../../../src/state/stores/connector-store.ts";
import { waitFor } from "../../support/wait-for.ts";

const stepMs = 5_000;

test("ten minutes of all connectors, the hour of one, or what ended after a time", async () => {
  // A millisecond before the end of a step: the next sample is due at once.
  const clock = { nowMs: 1_000_000 * stepMs - 1, monotonicMs: 0, samples: 0 };
  const known = { get: async (id: string) => unlessUnknown(id) } as unknown as ConnectorStore;
  using service = new LiveSampleService({
    connectors: known,
    readings: () => {
      clock.nowMs += stepMs;
      clock.monotonicMs += stepMs;
      const rowsIn = 3 * ++clock.samples;
      const run = { runId: "run", rowsIn, rowsDurable: 0, bytesDurable: 0, lagSeconds: 0, lagBytes: 7 };
      return new Map<string, Reading>([["orders", run]]);
    },
    nowMs: () => clock.nowMs,
    monotonicMs: () => clock.monotonicMs,
  });
  service.start();
  await waitFor("more than an hour", () => clock.samples > 730);
  service[Symbol.dispose]();
  const lengthOf = async (id: string | null, sinceMs: number | null) =>
    (await service.read(id, sinceMs)).samples[0]?.rows_in.length ?? 0;
  expect(await lengthOf(null, null)).toBe(120);
  expect(await lengthOf("orders", null)).toBe(720);
  expect(await lengthOf(null, 0)).toBe(720);
  expect(await lengthOf("orders", clock.nowMs - 3 * stepMs)).toBe(3);
  expect(await lengthOf("orders", clock.nowMs)).toBe(0);
  const { samples } = await service.read("orders", clock.nowMs - stepMs);
  expect(samples).toMatchObject([{ connector_id: "orders", rows_in: [3], lag_seconds: [0], lag_bytes: [7] }]);
  expect(await service.read("another", null)).toEqual({ step_seconds: 5, samples: [] });
  await expect(service.read("unknown", null)).rejects.toThrow("There is none.");
  service.forget("orders");
  expect(await lengthOf("orders", null)).toBe(0);
});

function unlessUnknown(id: string): void {
  if (id === "unknown") throw new MillraceError("connector_not_found", "There is none.");
}
