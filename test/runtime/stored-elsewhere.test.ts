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
  const alone = state.connectors.alone.bind(state.connectors);
  spyOn(state.connectors, "alone").mockImplementationOnce(async (work) => {
    await state.connectors.update("orders", { deletion: "wait" });
    return alone(work);
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
  const alone = state.connectors.alone.bind(state.connectors);
  spyOn(state.connectors, "alone")
    .mockImplementationOnce(alone)
    .mockImplementationOnce(async (work) => {
      await alone(work);
      return alone(work);
    })
    .mockImplementationOnce(async (work) => {
      await state.connectors.remove("orders", null);
      return alone(work);
    });
  const replacement = connectors.createOrReplace("orders", sampleRequest(), null);
  await expect(replacement).rejects.toMatchObject({ code: "conflict" });
  expect(await state.connectors.find("orders")).toBeNull();
});
