// publication_name is changed while a receiver has a transaction in part: what is left of it was numbered with the publication before.

import { expect, setDefaultTimeout, test } from "bun:test";
import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import { LiveRun } from "../../../support/runtime/live-run.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";

setDefaultTimeout(90_000);

const rows = 1_000;

/** Ids of `item` of which the receiver has a delete. */
function deleted({ requests }: WebhookReceiver): ReadonlySet<unknown> {
  const delivered = requests.filter(
    ({ path, action }) => path === "/public/item" && action.kind === "answer" && action.status === 200,
  );
  const sent = delivered.flatMap(({ body }) => JSON.parse(body) as { id: number; _sm_deleted: boolean }[]);
  return new Set(sent.filter((row) => row._sm_deleted).map(({ id }) => id));
}

test("amid a transaction that is delivered in part, another publication_name is refused; after it, it is taken", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await using receiver = await WebhookReceiver.start();
  await server.query(
    `create table note (id int primary key); create table item (id int primary key);
     insert into item select generate_series(1, ${rows});
     create publication wide for table note, item; create publication narrow for table item`,
  );
  const reading = (publication_name: string): ConnectorRequest => ({
    id: "changed_name",
    source: {
      postgres: {
        connection: server.connection(),
        replication_type: { logical_replication: { publication_name } },
      },
    },
    sink: {
      webhook: { url: receiver.url, path_template: "{schema}/{table}", batch: { max_batch_size: 50 } },
    },
    limits: { cdc: { flush_interval_ms: 10, max_buffer_rows: 100 } },
  });
  let before = LiveRun.start(reading("wide"));
  try {
    await before.untilRealtime();
    const { length } = receiver.requests;
    receiver.script = ({ index }) => (index < length + 10 ? 200 : { kind: "hang" });
    await server.query(
      `begin; insert into note select generate_series(1, ${rows}); delete from item; commit`,
    );
    await waitFor("a request without an answer", () => receiver.inFlight > 0);
    // What was delivered before it is recorded soon.
    await Bun.sleep(500);
    await before.stop();
    expect(deleted(receiver).size).toBe(0);
    receiver.script = () => 200;

    let run = LiveRun.after(before, reading("narrow"));
    before = run;
    const { error } = await run.untilFailed();
    expect(error).toMatchObject({ code: "publication_mismatch", retry: "permanent" });
    expect(error.message).toContain("Set publication_name to wide again");

    run = LiveRun.after(before, reading("wide"));
    before = run;
    await waitFor("the deletes", () => deleted(receiver).size === rows).catch(() => {});
    expect(deleted(receiver).size).toBe(rows);
    await run.stop();

    run = LiveRun.after(before, reading("narrow"));
    before = run;
    await run.untilRealtime();
    await server.query(`insert into item values (${rows + 1}); delete from item`);
    await waitFor("the change", () => deleted(receiver).has(rows + 1));
  } finally {
    await before[Symbol.asyncDispose]();
  }
});
