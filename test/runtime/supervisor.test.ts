// What a supervisor holds while leases come and go faster than its runs end.

import { expect, test } from "bun:test";
import { RuntimeFixture } from "../support/runtime-fixture.ts";
import { sampleRequest } from "../support/sample-connector.ts";

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
