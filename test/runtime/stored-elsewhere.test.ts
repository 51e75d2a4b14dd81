// What another replica stores of a connector while this one runs it, or answers a request about it.

import { expect, spyOn, test } from "bun:test";
import { sampleRequest } from "../support/api/sample-connector.ts";
import { RuntimeFixture } from "../support/runtime/runtime-fixture.ts";

test("a connector that does not run shows the run that another replica has stored", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, state, statuses, supervisor } = runtime;
  await connectors.createOrReplace("orders", { ...sampleRequest(), disabled: true }, null);
  await supervisor.settled("orders", 10_000);
  expect((await connectors.get("orders")).status.state).toEqual({ disabled: {} });
  const runId = Bun.randomUUIDv7();
  await state.connectors.update("orders", { runId });
  expect(statuses.status({ id: "orders", runId }).state).toEqual({ start: {} });
  supervisor.reconcile("orders");
  await supervisor.settled("orders", 10_000);
  expect((await connectors.get("orders")).status.state).toEqual({ disabled: {} });
});

test("a connector whose deletion another replica has begun meanwhile is not replaced", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, state } = runtime;
  runtime.isSourceAway = true;
  await connectors.createOrReplace("orders", sampleRequest(), null);
  const change = state.connectors.change.bind(state.connectors);
  spyOn(state.connectors, "change").mockImplementationOnce(async (id, decide) => {
    await state.connectors.update(id, { deletion: "wait" });
    return change(id, decide);
  });
  const other = { ...sampleRequest(), disabled: true };
  const replacement = connectors.createOrReplace("orders", other, null);
  await expect(replacement).rejects.toMatchObject({
    code: "conflict",
    message: expect.stringContaining("is being deleted"),
  });
  const { given, deletion } = await state.connectors.get("orders");
  expect([given.disabled, deletion]).toEqual([false, "wait"]);
});

test("a connector that another replica has made and deleted meanwhile is not told as replaced", async () => {
  await using runtime = await RuntimeFixture.open();
  const { connectors, state } = runtime;
  const insert = state.connectors.insert.bind(state.connectors);
  spyOn(state.connectors, "insert").mockImplementationOnce(async (stored) => {
    await insert(stored);
    await insert(stored);
  });
  const change = state.connectors.change.bind(state.connectors);
  spyOn(state.connectors, "change")
    .mockImplementationOnce(change)
    .mockImplementationOnce(async (id, decide) => {
      await state.connectors.remove(id, null);
      return change(id, decide);
    });
  const replacement = connectors.createOrReplace("orders", sampleRequest(), null);
  await expect(replacement).rejects.toMatchObject({ code: "conflict" });
  expect(await state.connectors.find("orders")).toBeNull();
});
