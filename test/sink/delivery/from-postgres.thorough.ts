// A real server, the pipeline, the real delivery worker and a receiver that fails now and then: what the
// receiver holds, deduplicated by key and ordered by version, is the source.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { parseRecord } from "../../../src/sink/delivery/record/sink-record.ts";
import { variants } from "../../support/matrix.ts";
import { PostgresServer } from "../../support/servers/postgres-server.ts";
import { slotRelease } from "../../support/servers/slot-release.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookLife } from "../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../support/webhook/webhook-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
}, 30_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

/** The last state of every row, by table and id. */
function state(receiver: WebhookReceiver): Map<string, Record<string, unknown>> {
  const rows = receiver.deduplicated.flatMap((request) => {
    const parsed = JSON.parse(request.body) as Record<string, unknown> | Record<string, unknown>[];
    return (Array.isArray(parsed) ? parsed : [parsed]).map((row) => ({ path: request.path, row }));
  });
  rows.sort((a, b) => Number(a.row._sm_version) - Number(b.row._sm_version));
  const held = new Map<string, Record<string, unknown>>();
  for (const { path, row } of rows) {
    const { _sm_version: _, _sm_deleted: deleted, ...columns } = row;
    if (deleted) held.delete(`${path}/${row.id}`);
    else held.set(`${path}/${row.id}`, columns);
  }
  return held;
}

async function source(database: string): Promise<Map<string, Record<string, unknown>>> {
  const held = new Map<string, Record<string, unknown>>();
  for (const table of ["item", "note"]) {
    const rows = await server.query<{ row: string }>(
      `select row_to_json(t)::text as row from ${table} t`,
      database,
    );
    for (const { row } of rows) {
      const parsed = JSON.parse(row) as Record<string, unknown>;
      held.set(`/public/${table}/${parsed.id}`, parsed);
    }
  }
  return held;
}

function originOf(store: RecordStore): bigint {
  const stored = store.record && parseRecord(store.record);
  if (stored?.kind !== "begun") throw new Error("nothing was begun");
  return stored.record.origin.version;
}

const sorted = (map: Map<string, unknown>) => [...map].toSorted(([a], [b]) => (a < b ? -1 : 1));

test.each(variants([10], [0, 1]))(
  "the receiver holds the source under kills, max_batch_size %d",
  async (maxRows) => {
    const database = `hook${maxRows}`;
    await server.createDatabase(database);
    await server.query(
      `create table item (id int primary key, v text, n int[], ok bool);
     create table note (id int primary key, v text);
     insert into item select g, repeat('x', g % 50), array[g, null], g % 2 = 0 from generate_series(1, 3000) g;
     insert into note select g, 'n' || g from generate_series(1, 500) g`,
      database,
    );
    let seen = 0;
    const receiver = await WebhookReceiver.start({
      script: () => {
        seen++;
        if (seen % 13 === 0) return 503;
        return seen % 29 === 0 ? { kind: "reset" } : undefined;
      },
    });
    const connector = webhookConnector(receiver.url, {
      batch: { max_batch_size: maxRows },
      retry: { initial_backoff_ms: 5, max_backoff_ms: 30, max_retries: 0, max_retry_duration_ms: 0 },
    });
    const store = new RecordStore();
    const begun = { yes: false };
    let life = await WebhookLife.start(server.connection(database), connector, store, begun);
    try {
      for (let round = 0; round < 5; round++) {
        const load = (async () => {
          for (let n = 0; n < 25; n++) {
            const id = round * 100 + n + 1;
            await server.query(
              `begin;
             insert into item values (${10_000 + id}, 'new', null, null);
             update item set v = 'round ${round}' where id % 97 = ${n};
             delete from note where id = ${id};
             update note set id = id + 100000 where id = ${id + 40};
             commit`,
              database,
            );
          }
        })();
        const before = receiver.requests.length;
        await waitFor("some requests of the round", () => receiver.requests.length > before);
        await life.kill();
        await load;
        life = await WebhookLife.start(server.connection(database), connector, store, begun);
      }
      const expected = sorted(await source(database));
      await waitFor(
        "the receiver to hold the source",
        () => Bun.deepEquals(sorted(state(receiver)), expected),
        {
          intervalMs: 100,
        },
      ).catch(() => {});
      expect(sorted(state(receiver))).toEqual(expected);
      await life.stop();
      // A copy that was interrupted is made again at a later point, under the same keys: the stream brings
      // what changed.
      const origin = originOf(store);
      const bodies = new Map<string, string>();
      for (const { headers, body, path } of receiver.requests) {
        if (body.includes(`"_sm_version":${origin},`)) continue;
        const key = `${path} ${headers["idempotency-key"]}`;
        expect(bodies.get(key) ?? body).toBe(body);
        bodies.set(key, body);
      }
    } finally {
      await receiver[Symbol.asyncDispose]();
    }
  },
  60_000,
);

test("a refusal ends the run although nothing more comes from the source, and the next run goes on with the same key", async () => {
  const database = "hook_refused";
  await server.createDatabase(database);
  await server.query("create table item (id int primary key)", database);
  const receiver = await WebhookReceiver.start({ script: () => 410 });
  const connector = webhookConnector(receiver.url);
  const store = new RecordStore();
  const begun = { yes: false };
  const first = await WebhookLife.start(server.connection(database), connector, store, begun);
  await waitFor("the stream", () => first.phase === "realtime");
  await server.query("insert into item values (1)", database);
  expect(await first.ended()).toMatchObject({ code: "webhook_rejected" });
  receiver.script = () => 200;
  const second = await WebhookLife.start(server.connection(database), connector, store, begun);
  await waitFor("the row", () => receiver.deduplicated.length === 1);
  await second.stop();
  const keys = receiver.requests.map((request) => request.headers["idempotency-key"]);
  expect(new Set(keys).size).toBe(1);
  expect(keys.length).toBe(2);
  await receiver[Symbol.asyncDispose]();
  await slotRelease(server, `millrace_${database}`);
  await server.query(`select pg_drop_replication_slot('millrace_${database}')`, database);
});

test("hashed columns, and a row hash behind the columns of a table without a key", async () => {
  const database = "hook_hashed";
  await server.createDatabase(database);
  await server.query(
    `create table log (mail text, n int); alter table log replica identity full;
     insert into log values ('a', 1), ('a', 1), (null, 2)`,
    database,
  );
  const receiver = await WebhookReceiver.start();
  const columns = [{ name: "mail", action: "Include" as const, hash: {} }];
  const table = { name: "log", action: "Include" as const, history_enabled: false, columns };
  const begun = { yes: false };
  const connector = webhookConnector(receiver.url, {});
  const life = await WebhookLife.start(server.connection(database), connector, new RecordStore(), begun, {
    keyless_table_strategy: { dedup_by_row_hash: {} },
    catalog: {
      name: database,
      default_action: "Include",
      column_hashing: { algorithm: "Sha256", salt: "s" },
      schemas: [{ name: "public", action: "Include", tables: [table] }],
    },
  });
  const hash = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
  const rowHash = (mail: string, n: number) => hash(`4:mail=64:${mail},1:n=1:${n},`);
  const held = () => {
    const rows = receiver.requests.flatMap(
      (request) => JSON.parse(request.body) as Record<string, unknown>[],
    );
    const byHash = new Map<unknown, Record<string, unknown>>();
    for (const row of rows.toSorted((a, b) => Number(a._sm_version) - Number(b._sm_version))) {
      expect(Object.keys(row)).toEqual(["mail", "n", "_sm_row_hash", "_sm_version", "_sm_deleted"]);
      if (row._sm_deleted) byHash.delete(row._sm_row_hash);
      else byHash.set(row._sm_row_hash, row);
    }
    return [...byHash.values()].map(({ mail, n, _sm_row_hash }) => ({ mail, n, _sm_row_hash }));
  };
  await waitFor("the copy", () => life.phase === "realtime");
  const [a, b] = [hash("sa"), hash("sb")];
  expect(held()).toContainEqual({ mail: a, n: 1, _sm_row_hash: rowHash(a, 1) });
  expect(held()).toContainEqual({ mail: null, n: 2, _sm_row_hash: hash("1:n=1:2,") });
  expect(held()).toHaveLength(2);
  await server.query("update log set mail = 'b', n = 3 where n = 2; delete from log where n = 1", database);
  const expected = [{ mail: b, n: 3, _sm_row_hash: rowHash(b, 3) }];
  await waitFor("the changes", () => Bun.deepEquals(held(), expected)).catch(() => {});
  expect(held()).toEqual(expected);
  await life.stop();
  await receiver[Symbol.asyncDispose]();
}, 60_000);

test("system columns travel with each row, and a delete says so", async () => {
  await server.createDatabase("hooksys");
  await server.query("create table t (id int primary key, v text); insert into t values (1, 'a')", "hooksys");
  const receiver = await WebhookReceiver.start();
  await using _receiver = receiver;
  const connector = webhookConnector(receiver.url, {});
  const life = await WebhookLife.start(
    server.connection("hooksys"),
    connector,
    new RecordStore(),
    { yes: false },
    {
      system_columns: { synced_at: {}, lsn: {}, op: { encoding: "Char", snapshot_as_read: true } },
    },
  );
  const rows = () =>
    receiver.deduplicated.flatMap(({ body }) => JSON.parse(body) as Record<string, unknown>[]);
  await waitFor("the stream", () => life.phase === "realtime");
  await server.query("insert into t values (2, 'b'); delete from t where id = 1", "hooksys");
  await waitFor("the delete", () => rows().some(({ _sm_deleted }) => _sm_deleted === true));
  await life.stop();
  expect(rows().map(({ id, _sm_op, _sm_deleted }) => [id, _sm_op, _sm_deleted])).toEqual([
    [1, "r", false],
    [2, "c", false],
    [1, "d", true],
  ]);
  for (const { _sm_lsn, _sm_synced_at } of rows()) {
    expect(_sm_lsn).toMatch(/^[0-9A-F]+\/[0-9A-F]+$/);
    expect(String(_sm_synced_at)).toMatch(/^\d{4}-\d{2}-\d{2}T/);
  }
}, 30_000);

test.each([
  { maxRows: 50, requests: 5 },
  // Below the batch's size it bounds the batch, which stays an array.
  { maxRows: 1, requests: 1 },
])(
  "of a copy no more than $maxRows rows are on their way",
  async ({ maxRows, requests: most }) => {
    const database = `hook_bounded${maxRows}`;
    await server.createDatabase(database);
    await server.query(
      "create table item (id int primary key); insert into item select generate_series(1, 200)",
      database,
    );
    const delayMs = 15;
    await using receiver = await WebhookReceiver.start({
      script: () => ({ kind: "answer", status: 200, delayMs }),
    });
    const connector = webhookConnector(
      receiver.url,
      { batch: { max_batch_size: 10 } },
      { limits: { snapshot: { max_buffer_rows: maxRows } } },
    );
    const begun = { yes: false };
    const life = await WebhookLife.start(server.connection(database), connector, new RecordStore(), begun);
    await waitFor("the copy", () => state(receiver).size === 200);
    const { requests } = receiver;
    // Those that came so shortly before it had no answer yet.
    const beside = requests.map(
      ({ receivedMs: at }) =>
        requests.filter(({ receivedMs }) => receivedMs <= at && at - receivedMs < delayMs - 1).length,
    );
    expect(Math.max(...beside)).toBeLessThanOrEqual(most);
    expect(requests.every(({ body }) => body.startsWith("["))).toBe(true);
    await life.stop();
  },
  30_000,
);

test("of tables that are copied side by side, one whose rows are not taken keeps no other", async () => {
  const database = "hook_beside";
  await server.createDatabase(database);
  await server.query(
    `create table alike as select id, repeat('a', 60000) as v from generate_series(1, 200) id;
     create table other as select * from alike; alter table alike add primary key (id); alter table other add primary key (id)`,
    database,
  );
  let refused: string | undefined;
  await using receiver = await WebhookReceiver.start({
    script: ({ path }) => {
      refused ??= path;
      return { kind: "answer", status: path === refused ? 503 : 200 };
    },
  });
  const limits = { snapshot: { max_buffer_rows: 50 } };
  const connector = webhookConnector(receiver.url, { batch: { max_batch_size: 10 } }, { limits });
  const begun = { yes: false };
  const life = await WebhookLife.start(server.connection(database), connector, new RecordStore(), begun);
  await waitFor("the other table", () => state(receiver).size === 200);
  expect([...state(receiver).keys()].some((key) => key.startsWith(`${refused}/`))).toBe(false);
  refused = "none";
  await waitFor("both", () => state(receiver).size === 400);
  await life.stop();
}, 30_000);
