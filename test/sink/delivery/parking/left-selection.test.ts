// A table leaves the selection while rows are parked: over a real server, whose stream leaves its changes out then.

import { expect, test } from "bun:test";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookLife } from "../../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../../support/webhook/webhook-rig.ts";

const catalog = {
  name: "left",
  default_action: "Include" as const,
  schemas: [
    {
      name: "public",
      action: "Include" as const,
      tables: [{ name: "a", columns: [], action: "Exclude" as const, history_enabled: false }],
    },
  ],
};

test.each([
  [1, 1, 2],
  [5, 1, 2],
])(
  "%i changes of a table that leaves the selection, and requests of %i rows that have %i then",
  async (rowsOfA, before, after) => {
    await using server = await PostgresServer.start({ settings: { fsync: "off" } });
    await server.createDatabase("left");
    for (const table of ["a", "m"])
      await server.query(`create table ${table} (id int primary key, v text)`, "left");
    await using receiver = await WebhookReceiver.start({
      script: ({ body }) => (body.includes("blocker") ? 503 : body.includes('"bad"') ? 422 : 200),
    });
    const connector = (max_batch_size: number, max_messages: number) =>
      webhookConnector(receiver.url, {
        batch: { max_batch_size },
        on_exhausted: { park: { max_messages } },
        retry: { initial_backoff_ms: 100, max_backoff_ms: 100 },
      });
    const store = new RecordStore();
    const begun = { yes: false };
    const source = server.connection("left");
    const first = await WebhookLife.start(source, connector(before, 1), store, begun);
    await waitFor("the stream", () => first.phase === "realtime");
    await server.query(
      `begin; insert into a select g, 'blocker' from generate_series(1, ${rowsOfA}) g;
       insert into m values (1, 'bad'); update m set v = 'good'; commit`,
      "left",
    );
    expect(await first.ended()).toMatchObject({ code: "parking_full" });

    receiver.script = () => 200;
    const next = await WebhookLife.start(source, connector(after, 100), store, begun, { catalog });
    await waitFor("the stream", () => next.phase === "realtime");
    await server.query("insert into m values (2, 'later')", "left");
    await waitFor("the next row", () => receiver.delivered.some(({ body }) => body.includes("later")));
    store.parking.ask();
    await waitFor("the parking to be empty", () => store.parking.parked.length === 0);
    await next.kill();
    expect(receiver.delivered.flatMap(({ body }) => body.match(/(?<="id":1,"v":")\w+/g) ?? [])).toEqual([
      "bad",
      "good",
    ]);
  },
  120_000,
);
