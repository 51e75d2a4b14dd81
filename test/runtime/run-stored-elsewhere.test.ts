// A command that another replica has taken: it stores the run, and the holder's board learns of it from the record alone.

import { expect, test } from "bun:test";
import { RuntimeFixture } from "../support/runtime-fixture.ts";
import { sampleRequest } from "../support/sample-connector.ts";

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
