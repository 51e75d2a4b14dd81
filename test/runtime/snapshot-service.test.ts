// The number of running copies, as /snapshots reports it.

import { expect, test } from "bun:test";
import type { Status } from "../../src/connector/status.ts";
import { LiveSnapshotService } from "../../src/runtime/snapshot-service.ts";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { runMetrics } from "../support/pipeline/run-metrics.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";

test("counts tables in progress over all connectors, and shows whether others wait for them", async () => {
  await using runtime = await RuntimeFixture.open();
  const { board, statuses, supervisor, connectors } = runtime;
  const service = new LiveSnapshotService(statuses);
  const runs = new Map<string, string>();
  for (const id of ["one", "other"]) {
    await connectors.createOrReplace(id, { ...sampleRequest(), disabled: true }, null);
    await supervisor.settled(id, 10_000);
    runs.set(id, (await connectors.get(id)).run_id);
  }
  const report = (id: string, status: Status) => board.report(id, runs.get(id) ?? "", "Source", status);
  const measure = (id: string, tables: number, tablesDone: number, copying: number) => {
    const snapshot = { tables, tablesDone, copying, rows: 0, bytes: 0, estimatedRows: 0 };
    const metrics = runMetrics({ snapshot });
    board.measured(id, runs.get(id) ?? "", metrics);
  };
  const copying: Status["state"] = { snapshot: { name: "public.t" } };
  expect(service.activity()).toEqual({ active: false, count: 0, throttled: false });
  report("one", { state: copying, status: { start: {} } });
  expect(service.activity()).toEqual({ active: true, count: 1, throttled: false });
  measure("one", 3, 0, 2);
  expect(service.activity()).toEqual({ active: true, count: 2, throttled: true });
  report("other", { state: copying, status: { start: {} } });
  measure("other", 1, 0, 1);
  expect(service.activity().count).toBe(3);
  // One of its tables is complete, and another has started.
  report("one", { state: copying, status: { complete: {} } });
  measure("one", 3, 1, 2);
  expect(service.activity()).toEqual({ active: true, count: 3, throttled: false });
  report("one", { state: copying, status: { retry: { attempt: 1, reason: "The line went dead." } } });
  report("other", { state: { realtime: { name: "slot" } }, status: { heartbeat: {} } });
  expect(service.activity()).toEqual({ active: false, count: 0, throttled: false });
});
