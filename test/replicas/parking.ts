// Two replicas of the built program over one state: what is parked is listed, sent again and discarded at either of them, whichever runs the
// connector.

import { expect, setDefaultTimeout, test } from "bun:test";
import type { ParkedList } from "../../src/connector/parked-message.ts";
import { type Replica, ReplicaStage } from "../support/replicas/replica-stage.ts";
import { waitFor } from "../support/wait-for.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(240_000);

const id = "hooks";
const wait = { timeoutMs: 60_000, intervalMs: 200 };

test("list, retry and discard work at a replica that does not hold the connector, and after the holder has died", async () => {
  await using stage = await ReplicaStage.start();
  await using receiver = await WebhookReceiver.start({
    script: ({ body }) => (body.includes("bad") ? { kind: "answer", status: 422, body: "no" } : 200),
  });
  const a = await stage.join("a");
  const b = await stage.join("b");
  const webhook = {
    url: receiver.url,
    path_template: "{schema}/{table}",
    batch: { max_batch_size: 1 },
    on_exhausted: { park: {} },
  };
  await a.api.createConnector(id, { source: stage.source(), sink: { webhook } });
  await stage.untilStreaming(a, [id], 60_000);
  const others = async (): Promise<readonly [holder: Replica, other: Replica]> => {
    const holder = (await stage.holders(a)).get(id);
    return holder === "a" ? [a, b] : [b, a];
  };
  const [holder, other] = await others();
  const parked = async ({ api }: Replica) =>
    (await api.call<ParkedList>("GET", `/api/v1/connectors/${id}/parked`)).parked;
  const post = ({ api }: Replica, path: string) =>
    api.call<{ count: number }>("POST", `/api/v1/connectors/${id}/parked/${path}`);
  const write = (row: number, v: string) =>
    stage.server.query(
      `insert into orders values (${row}, '${v}') on conflict (id) do update set v = excluded.v`,
      "shop",
    );
  const sent = () =>
    receiver.delivered
      .map(({ body }) => JSON.parse(body) as { id: number; v: string })
      .map((row) => `${row.id} ${row.v}`);

  for (const row of [1, 2, 3]) await write(row, "bad");
  for (const row of [1, 2, 3]) await write(row, "good");
  await waitFor("the parked rows", async () => (await parked(other)).length === 6, wait);
  const [first, second] = await parked(other);
  expect((await parked(holder)).map((each) => each.id)).toEqual((await parked(other)).map((each) => each.id));
  const firstOf = async (row: number, replica: Replica) =>
    (await parked(replica)).find(({ keys }) => keys[0] && (keys[0] as { id: number }).id === row)!;

  expect(await post(other, `${(await firstOf(1, other)).id}/discard`)).toEqual({ count: 1 });
  await waitFor("what waited behind it", () => sent().includes("1 good"), wait);
  receiver.script = () => 200;
  expect(await post(other, `${(await firstOf(2, other)).id}/retry`)).toEqual({ count: 1 });
  await waitFor("the second row, in order", () => sent().includes("2 good"), wait);
  expect(sent()).toEqual(["1 good", "2 bad", "2 good"]);
  expect([first!.id === second!.id, (await parked(holder)).length]).toEqual([false, 2]);

  await holder.service.kill();
  expect(await post(other, `${(await firstOf(3, other)).id}/retry`)).toEqual({ count: 1 });
  await waitFor("the third row, sent by the other one", () => sent().includes("3 good"), wait);
  expect(sent().filter((row) => row.startsWith("3"))).toEqual(["3 bad", "3 good"]);
  await waitFor("the parking to be empty", async () => (await parked(other)).length === 0, wait);
});
