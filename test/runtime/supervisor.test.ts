// What a supervisor holds while leases come and go faster than its runs end.

import { expect, spyOn, test } from "bun:test";
import { claimTask, newTask } from "../../src/connector/task-state.ts";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { RuntimeFixture } from "../support/runtime-fixture.ts";
import { sampleRequest } from "../support/sample-connector.ts";
import { waitFor } from "../support/wait-for.ts";

test("a lease that is gained and lost while the earlier run ends is not held afterwards", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, supervisor } = runtime;
  await connectors.createOrReplace("orders", sampleRequest(), null);
  supervisor.cut("orders");
  supervisor.hold("orders", 2);
  supervisor.cut("orders");
  await supervisor.giveBack("orders");
  await Bun.sleep(0);
  expect(supervisor.holds("orders")).toBe(false);
});

test("of two leases that are gained while the earlier run ends, the later one is held", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, supervisor } = runtime;
  await connectors.createOrReplace("orders", sampleRequest(), null);
  supervisor.cut("orders");
  supervisor.hold("orders", 2);
  supervisor.cut("orders");
  supervisor.hold("orders", 3);
  await supervisor.giveBack("other");
  while (!supervisor.holds("orders")) await Bun.sleep(5);
  expect(supervisor.termOf("orders")).toBe(3);
});

test("one statement releases the tasks of all connectors where no other replica can run any", async () => {
  await using runtime = await RuntimeFixture.open();
  const ids = ["orders", "users", "items"];
  for (const id of ids) await runtime.connectors.createOrReplace(id, sampleRequest(), null);
  await runtime.beginAnew();
  const before = runtime.runs;
  const { tasks } = runtime.state;
  const snapshot = { database: "shop", schema: "public", name: "t", truncate: false, force_parallel: false };
  for (const id of ids) {
    await tasks.create(id, claimTask(newTask(Bun.randomUUIDv7(), { Snapshot: snapshot }, Date.now())));
  }
  const all = spyOn(tasks, "releaseAllRunning");
  // The first try fails, for whichever connectors wait for it.
  all.mockImplementationOnce(() => Promise.reject(new MillraceError("state_unavailable", "It is away.")));
  const single = spyOn(tasks, "releaseRunning");
  await runtime.supervisor.start();
  await waitFor("all to run", () => runtime.runs >= before + ids.length);
  expect(all).toHaveBeenCalledTimes(2);
  expect(await all.mock.results[1]?.value).toBeUndefined();
  expect(single).not.toHaveBeenCalled();
  // Whoever runs them claims them again.
  const left = await Promise.all(ids.map((id) => tasks.list(id)));
  expect(left.map((each) => each.length)).toEqual([1, 1, 1]);
});
