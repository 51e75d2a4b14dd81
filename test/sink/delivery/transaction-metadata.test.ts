// `emit_tx_metadata`: each change says its place in its transaction, and BEGIN and END come once each, wherever the stream was cut and
// whoever died.

import { afterEach, expect, test } from "bun:test";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import { variants } from "../../support/matrix.ts";
import {
  batches,
  type FixtureChange,
  type FixtureTransaction,
  relation,
  transaction,
} from "../../support/rows/batch-fixture.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type ReceivedRequest, WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../../support/webhook/webhook-rig.ts";

const columns = [
  ["id", 23, "integer"],
  ["v", 25, "text"],
] as const;
const tables = ["a", "b"].map((name, n) => relation(name, columns, { id: 16_400 + n }));
const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1n };
const retry = { initial_backoff_ms: 5, max_backoff_ms: 20, max_retries: 0, max_retry_duration_ms: 0 };

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

interface Envelope {
  readonly op: string;
  readonly source: { readonly table: string; readonly txId: number };
  readonly transaction: { id: string; total_order: number; data_collection_order: number } | null;
}

interface Boundary {
  readonly status: "BEGIN" | "END";
  readonly id: string;
}

const isBoundary = ({ path }: ReceivedRequest) => path === "/hooks/transaction";
const of = <Row>(requests: readonly ReceivedRequest[]) => WebhookReceiver.rows(requests) as unknown as Row[];

const insert = (n: number): FixtureChange => ({
  kind: "insert",
  relation: tables[n % 3 === 0 ? 0 : 1]!,
  after: [String(n), `v${n}`],
});

/** What each transaction comes to: the rows by table, and their places. */
function expected({ changes, commitLsn, xid }: FixtureTransaction) {
  const rows = changes.flatMap((change) => {
    const { name } = change.relation;
    const moved = change.kind === "update" && change.before;
    return moved ? [name, name] : [name];
  });
  const count = (name: string) => rows.filter((each) => each === name).length;
  const named = [...new Set(rows)];
  return {
    id: `${xid}:${commitLsn}`,
    orders: rows.map((_, i) => i + 1),
    end: {
      event_count: rows.length,
      data_collections: named.map((name) => ({
        data_collection: `public.${name}`,
        event_count: count(name),
      })),
    },
  };
}

function expectWhole(to: WebhookReceiver, transactions: readonly FixtureTransaction[]): void {
  const received = to.deduplicated;
  const boundaries = of<Boundary>(received.filter(isBoundary));
  const rows = of<Envelope>(received.filter((request) => !isBoundary(request)));
  for (const each of transactions) {
    const { id, orders, end } = expected(each);
    const ts_ms = Math.floor(Number(each.commitTimeUs) / 1000);
    expect(boundaries.filter((boundary) => boundary.id === id)).toEqual([
      { status: "BEGIN", id, event_count: null, data_collections: null, ts_ms } as Boundary,
      { status: "END", id, ...end, ts_ms } as Boundary,
    ]);
    const own = rows.filter((row) => row.transaction?.id === id);
    expect(own.map((row) => row.transaction!.total_order).toSorted((a, b) => a - b)).toEqual(orders);
    for (const { name } of tables) {
      const ofTable = own.filter(({ source }) => source.table === name);
      const places = ofTable.map((row) => row.transaction!.data_collection_order).toSorted((a, b) => a - b);
      expect(places).toEqual(places.map((_, i) => i + 1));
    }
  }
  expect(boundaries.length).toBe(transactions.length * 2);
}

const connector = (to: WebhookReceiver, maxRows: number, embed = false) =>
  webhookConnector(
    to.url,
    {
      format: {
        debezium: {
          emit_tx_metadata: true,
          format_config: { value_serde: { json: { options: { embed_schema_in_message: embed } } } },
        },
      },
      batch: { max_batch_size: maxRows },
      retry,
    },
    { limits: { cdc: { flush_interval_ms: 5, max_buffer_rows: 10 } } },
  );

async function receiver(): Promise<WebhookReceiver> {
  const to = await WebhookReceiver.start();
  owned.push(to);
  return to;
}

async function life(config: ReturnType<typeof connector>, store: RecordStore) {
  const rig = await WebhookRig.start(config, store);
  const sink = rig.sink();
  const from = await sink.open();
  if (!from) await sink.begin(start);
  return { rig, sink, from: from ?? start };
}

test("a change of the key is two rows, and a row of the schema is beside each boundary where it is asked for", async () => {
  const to = await receiver();
  const { rig, sink } = await life(connector(to, 0, true), new RecordStore());
  owned.push(rig);
  const moved: FixtureChange = {
    kind: "update",
    relation: tables[0]!,
    before: ["3", null],
    oldIsKey: true,
    after: ["4", "v"],
  };
  const transactions = [transaction(1, [insert(3), moved, insert(1)])];
  for (const batch of batches(transactions)) await sink.write(batch);
  await sink.flush();
  type Embedded = { schema: { name: string; fields: { field: string }[] }; payload: object };
  const [begin, end] = of<Embedded>(to.delivered.filter(isBoundary));
  expect(begin!.schema.name).toBe("io.debezium.connector.common.TransactionMetadataValue");
  expect(begin!.schema.fields.map(({ field }) => field)).toEqual(Object.keys(begin!.payload));
  expect(end!.payload).toMatchObject(expected(transactions[0]!).end);
  const rows = of<{ payload: Envelope }>(to.delivered.filter((request) => !isBoundary(request)));
  const places = rows.map(({ payload: { op, transaction: at } }) => ({ op, ...at }));
  const id = expected(transactions[0]!).id;
  // Requests of two tables come side by side.
  expect(places.toSorted((a, b) => a.total_order! - b.total_order!)).toEqual([
    { op: "c", id, total_order: 1, data_collection_order: 1 },
    { op: "d", id, total_order: 2, data_collection_order: 2 },
    { op: "c", id, total_order: 3, data_collection_order: 3 },
    { op: "c", id, total_order: 4, data_collection_order: 1 },
  ]);
});

test("an end that is told only later is sent when it is, and each boundary goes alone", async () => {
  const to = await receiver();
  const { rig, sink } = await life(connector(to, 1), new RecordStore());
  owned.push(rig);
  const transactions = [transaction(1, [insert(1), insert(2)])];
  const [piece] = batches(transactions, { perBatch: 1 });
  await sink.write(piece!);
  await to.until(() => to.delivered.length === 2);
  const [, rest] = batches(transactions, { perBatch: 1 });
  await sink.write({ ...rest!, endsInTransaction: true, resumeLsn: start.resumeLsn });
  await sink.flush();
  expect(to.delivered.filter(isBoundary).length).toBe(1);
  const [nothing] = batches([transaction(2, [insert(1)])]);
  await sink.write({ ...nothing!, count: 0 });
  await waitFor("the end", () => to.delivered.filter(isBoundary).length === 2);
  expect(to.delivered.every(({ body }) => body.startsWith("{"))).toBe(true);
  await sink.flush();
});

test.each(variants([4], [0, 1]))(
  "each comes once under kills, max_batch_size %d",
  async (maxRows) => {
    const to = await receiver();
    const store = new RecordStore();
    let n = 0;
    const transactions = Array.from({ length: 12 }, (_, i) =>
      transaction(
        i + 1,
        Array.from({ length: i % 3 === 0 ? 35 : 1 + (i % 4) }, () => insert(++n)),
      ),
    );
    for (let lives = 0; lives < 6; lives++) {
      const { rig, sink, from } = await life(connector(to, maxRows), store);
      const parts = batches(transactions, { from, perBatch: 3 + lives * 2 });
      for (const batch of parts.slice(0, 4 + lives)) await sink.write(batch);
      const { length } = to.requests;
      await to.until(() => to.requests.length > length || parts.length === 0);
      await Bun.sleep(lives * 3);
      await rig.kill();
    }
    const { sink, from } = await life(connector(to, maxRows), store);
    for (const batch of batches(transactions, { from, perBatch: 11 })) await sink.write(batch);
    // The stream has come further: what was committed has ended.
    const [further] = batches([transaction(20, [insert(1)])]);
    await sink.write({ ...further!, count: 0 });
    await sink.flush();
    expectWhole(to, transactions);
  },
  30_000,
);
