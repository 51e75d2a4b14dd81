// A parked message is sent again after all that is before it in the order of its key, also after what is parked later.

import { expect, test } from "bun:test";
import { transaction } from "../../../support/rows/batch-fixture.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { insert, log, ParkingBench, refuses, update } from "../../../support/webhook/parking-bench.ts";

const line = (text: string) => ({ kind: "insert", relation: log, after: [text] }) as const;

test("one that waits for the stream is not sent before a row of its key that comes again meanwhile, and is refused", async () => {
  const single = { batch: { max_batch_size: 1 } };
  const whileBlocked = (word: string) => (request: Parameters<ReturnType<typeof refuses>>[0]) =>
    request.body.includes("blocker") ? 503 : refuses(word)(request);
  await using at = await ParkingBench.start(whileBlocked("bad"));
  const rows = [
    // As long as it is not delivered, the checkpoint stays before all that follows.
    transaction(1, [line("blocker")]),
    transaction(2, [insert(2, "old")]),
    transaction(3, [update(2, "bad new")]),
  ];
  const first = await at.life(single);
  await first.write(rows);
  await waitFor("the later row", () => at.parked.length === 1);
  await first.rig.kill();
  at.store.parking.ask();
  at.receiver.script = whileBlocked("old");
  const next = await at.life(single);
  await next.write(rows);
  await waitFor("the earlier row", () => at.parked.length === 2);
  const { length } = at.receiver.delivered;
  at.receiver.script = () => 200;
  await waitFor("the retry", () => at.parked.length === 0 || at.receiver.delivered.length > length + 2);
  const names = at.receiver.delivered.slice(length).map(({ body }) => body.match(/old|bad new|blocker/)![0]);
  expect(names).toEqual(["blocker", "old", "bad new"]);
});
