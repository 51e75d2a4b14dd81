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

test("the end of a transaction that was not answered arrives amid a later one, and ends nothing of it", async () => {
  await using rig = await FaultRig.start({
    cluster: { listeners: ["PROXIED"] },
    listener: "PROXIED",
    config: { timeout_ms: 1_000 },
  });
  await rig.run.untilRealtime();
  const delayed = rig.proxy.delay((chunk) => apiOf(chunk) === "EndTxn");
  await rig.query("update a set v = v + 1 where id = 1");
  const arrive = await delayed;
  // A transaction that goes out in several requests.
  let requests = 0;
  const isHalfSent = rig.proxy.delay((chunk) => {
    const api = apiOf(chunk);
    if (api === "EndTxn") requests = 0;
    if (api === "AddPartitionsToTxn" || (api === "Produce" && requests > 0)) requests++;
    return requests > 3;
  });
  await rig.query(
    "insert into a select i, 0, 0, repeat('x', 1000) from generate_series(10000, 59999) i; update a set v = v + 1",
  );
  await isHalfSent;
  arrive();
  await rig.expectExact();
  expect(rig.run.isOver).toBe(false);
  expect(rig.run.failures.map(({ error }) => error.code)).toContain("sink_unreachable");
});

const apis = new Map([
  [0, "Produce"],
  [24, "AddPartitionsToTxn"],
  [26, "EndTxn"],
]);
const mostVersion = 12;

/** What a request that begins with this asks for. Undefined: something else, or more of a request. */
function apiOf(chunk: Buffer): string | undefined {
  if (chunk.length < 8 || chunk.readInt16BE(6) > mostVersion) return undefined;
  return apis.get(chunk.readInt16BE(4));
}

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
