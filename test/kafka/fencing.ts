// What has another producer under the connector's transactional id: another service, or a request of the connector's own that came late.

import { expect, test } from "bun:test";
import { Connection, initProducerIdV4 } from "@platformatic/kafka";
import { FaultRig } from "../support/kafka/fault-rig.ts";
import { waitFor } from "../support/wait-for.ts";

test("a second run of the same connector: the first is fenced, and only one of them goes on", async () => {
  await using rig = await FaultRig.start();
  await using load = rig.load();
  await rig.run.untilRealtime();
  await rig.untilCaughtUp("the first");
  await using second = rig.another();
  await waitFor("the end of one of them", () => rig.run.isOver || second.isOver, { timeoutMs: 60_000 });
  await rig.expectFailure("kafka_fenced", /another service/i, /in one of the two services/);
  await rig.goOn(second);
  expect(second.isOver).toBe(false);
  await load[Symbol.asyncDispose]();
  await rig.expectExact();
});

test("what the connector asked when it began arrives once more, late: it goes on by itself", async () => {
  await using rig = await FaultRig.start();
  {
    await using _load = rig.load();
    await rig.run.untilRealtime();
    await rig.untilCaughtUp("the beginning");
    for (let round = 0; round < 2; round++) {
      await askForProducer(rig.cluster.bootstrap[0]!, "millrace-k");
      await rig.expectRecovery("fenced by a late request");
    }
  }
  await rig.expectExact();
  expect(rig.run.isOver).toBe(false);
  expect(rig.run.failures.map(({ error }) => error.code)).toContain("kafka_fenced");
});

/** The same request as that of a run that begins. */
async function askForProducer(address: string, transactionalId: string): Promise<void> {
  const [host, port] = address.split(":");
  const connection = new Connection("late");
  await connection.connect(host!, Number(port));
  for (;;) {
    try {
      await initProducerIdV4.api.async(connection, transactionalId, 60_000, -1n, -1);
      break;
    } catch (error) {
      // It ends the connector's transaction first.
      if (!JSON.stringify((error as { errors?: unknown }).errors ?? "").includes("CONCURRENT")) throw error;
    }
  }
  await connection.close();
}
