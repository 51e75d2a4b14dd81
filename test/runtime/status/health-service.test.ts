// Whether the service is ready: its store answers, its workers are alive, and it neither starts nor stops.

import { expect, test } from "bun:test";
import { LiveHealthService } from "../../../src/runtime/status/health-service.ts";
import { ThreadWatch } from "../../../src/runtime/threads/thread-watch.ts";
import type { State } from "../../../src/state/open-state.ts";
import { RuntimeFixture } from "../../support/runtime/runtime-fixture.ts";
import { waitFor } from "../../support/wait-for.ts";

test("the reason names the problem, and what to do about a stuck worker", async () => {
  await using runtime = await RuntimeFixture.open();
  using threads = new ThreadWatch(5);
  let unready: string | null = "The service is starting.";
  const health = new LiveHealthService(runtime.state, threads, () => unready);
  expect(await health.readiness()).toEqual({ ready: false, reason: "The service is starting." });
  unready = null;
  expect(await health.readiness()).toEqual({ ready: true });
  threads.began("orders", ["replication"]);
  await waitFor("the worker to be missed", async () => !(await health.readiness()).ready);
  const { reason } = (await health.readiness()) as { reason: string };
  expect(reason).toStartWith(
    "The replication worker of connector orders has given no sign of life for 30 s.",
  );
  expect(reason).toContain("millrace connectors restart orders");
  threads.ended("orders");
  expect(await health.readiness()).toEqual({ ready: true });
  unready = "The service is stopping.";
  expect(await health.readiness()).toEqual({ ready: false, reason: "The service is stopping." });
});

test("a store that does not answer in time makes the service not ready", async () => {
  using threads = new ThreadWatch();
  const state = { ping: () => new Promise<void>(() => {}) } as Pick<State, "ping"> as State;
  const health = new LiveHealthService(state, threads, () => null);
  expect(await health.readiness()).toEqual({ ready: false, reason: "The state store does not answer." });
});
