// Whatever happens to the brokers, to the network and to the service: every change is there once, in the order of its key, and the
// connector goes on within ten seconds.

import { describe, expect, test } from "bun:test";
import { FaultRig } from "../support/kafka/fault-rig.ts";
import { waitFor } from "../support/wait-for.ts";

describe("one broker", () => {
  test("killed and started again", async () => {
    await using rig = await FaultRig.start();
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (let round = 0; round < 3; round++) {
        await Bun.sleep(500 + Math.random() * 1_000);
        await rig.cluster.kill(1);
        await Bun.sleep(Math.random() * 3_000);
        await rig.cluster.restart(1);
        await rig.expectRecovery("the broker is up again");
      }
    }
    rig.expectSaid(/127\.0\.0\.1/);
    await rig.expectExact();
  });

  test("frozen, shortly and for longer than requests wait", async () => {
    await using rig = await FaultRig.start({ config: { timeout_ms: 2_000 } });
    {
      await using _load = rig.load();
      await rig.run.untilRealtime();
      for (const forMs of [1_000, 12_000]) {
        rig.cluster.freeze(1);
        await Bun.sleep(forMs);
        rig.cluster.thaw(1);
        await rig.expectRecovery(`frozen for ${forMs} ms`);
      }
    }
    await rig.expectExact();
  });
});
