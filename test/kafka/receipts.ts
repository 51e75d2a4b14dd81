// Receipts of messages, with a real broker and the service as a process, both killed at random moments under load: with transactions every
// committed message has one receipt, which has its partition and offset, and nothing else has one. So it is for rows that were parked.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { slotName } from "../../src/connector/connector-id.ts";
import type { Explanation } from "../../src/connector/explanation.ts";
import type { ParkedList } from "../../src/connector/parked-message.ts";
import type { ApiClient } from "../../src/demo/api-client.ts";
import type { ServiceProcess } from "../../src/demo/service-process.ts";
import { decodeBody } from "../../src/sink/delivery/receipts/receipt-body.ts";
import { untilDurable } from "../support/kafka/fault-rig.ts";
import { KafkaCluster } from "../support/kafka/kafka-cluster.ts";
import { readTopic, type TopicMessage } from "../support/kafka/kafka-reader.ts";
import { builtStage, stateIn } from "../support/program/built-stage.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

const kills = Number(process.env.MILLRACE_KILLS ?? 8);
const copied = 2_000;
/** One message in so many is larger than `smallLimit`. */
const largeEvery = 67;
const smallLimit = 20_000;
const largeLimit = 500_000;
const stack = new AsyncDisposableStack();
let server: PostgresServer;
let cluster: KafkaCluster;
let service: ServiceProcess;
let api: ApiClient;

const sql = <R extends object>(text: string) => server.query<R>(text, "shop");

beforeAll(async () => {
  const stage = await builtStage({
    databases: ["shop", "state"],
    source: `create table nudge (n int); insert into nudge values (0);
     create function large() returns trigger language plpgsql as $$ begin
       new.v := case when new.n % ${largeEvery} = 1 then repeat(md5(new.n::text), 2000) else '' end; return new;
     end $$`,
    environment: (server) => stateIn(server, "state"),
  });
  ({ server, service, api } = stack.use(stage));
  cluster = stack.use(await KafkaCluster.start());
});
afterAll(() => stack.disposeAsync());

async function create(id: string, isTransactional: boolean): Promise<void> {
  await sql(
    `create table ${id} (id int primary key, n int not null, v text);
     create trigger large before insert or update on ${id} for each row execute function large();
     insert into ${id} select i, 0 from generate_series(1, ${copied}) i`,
  );
  await api.createConnector(id, {
    source: {
      postgres: {
        connection: server.connection("shop"),
        replication_type: { logical_replication: {} },
        catalog: {
          name: "shop",
          default_action: "Exclude",
          schemas: [
            { name: "public", action: "Exclude", tables: [{ name: id, action: "Include", columns: [] }] },
          ],
        },
      },
    },
    sink: {
      kafka: {
        connection: {
          brokers: cluster.bootstrap,
          config: {
            linger_ms: 1,
            message_max_bytes: smallLimit,
            transactions: { enabled: isTransactional },
          },
        },
        format: { native: {} },
        topic_options: { partitions: 3 },
        on_exhausted: { park: {} },
      },
    },
    limits: { receipts_hours: 24 },
  });
  await waitFor("the stream", async () => (await api.connector(id)).status.state.realtime, {
    timeoutMs: 120_000,
  });
}

async function load(table: string, signal: AbortSignal): Promise<void> {
  const client = await server.connect("shop");
  for (let n = 1; !signal.aborted; n++) {
    const id = 1 + Math.floor(Math.random() * copied);
    await client.query(
      `update ${table} set n = ${n} where id = ${id}; delete from ${table} where id = ${(id * 7) % copied};
       insert into ${table} values (${copied + n}, ${n})`,
    );
    await Bun.sleep(3);
  }
  await client.end();
}

const limit = (id: string, bytes: number) =>
  api.call("PATCH", `/api/v1/connectors/${id}`, {
    sink: { kafka: { connection: { config: { message_max_bytes: bytes } } } },
  });
const retry = (id: string) => api.call("POST", `/api/v1/connectors/${id}/parked/retry`, {});
const parked = async (id: string) =>
  (await api.call<ParkedList>("GET", `/api/v1/connectors/${id}/parked?limit=1000`)).parked;

/** What is parked is not delivered, and no receipt says so. */
async function expectParkedExplained(id: string): Promise<void> {
  await waitFor("a parked row", async () => (await parked(id)).length > 0, { timeoutMs: 60_000 });
  const [first] = await parked(id);
  const explained = await explain(id, (first!.keys[0] as { id: number }).id);
  expect(explained).toMatchObject({ state: "Parked", durable: false });
  expect(explained.parked).toContain(first!.id);
  expect(explained.deliveries.map(({ idempotency_key: key }) => key)).not.toContain(first!.id);
}

async function killUnderLoad(id: string): Promise<void> {
  const stop = new AbortController();
  const loading = load(id, stop.signal);
  await expectParkedExplained(id);
  for (let kill = 0; kill < kills; kill++) {
    // Some retries find a limit that lets them through.
    await limit(id, kill % 2 === 0 ? largeLimit : smallLimit);
    await retry(id);
    await Bun.sleep(300 + Math.random() * 1_500);
    const isOfBroker = kill % 4 === 3;
    await Promise.all([service.kill(), isOfBroker ? cluster.kill(1) : null]);
    await Promise.all([service.launch(), isOfBroker ? cluster.restart(1) : null]);
    if (kill % 4 !== 1) continue;
    await Bun.sleep(Math.random() * 1_000);
    await cluster.kill(1);
    await cluster.restart(1);
  }
  stop.abort();
  await loading;
  await limit(id, largeLimit);
  await untilDurable((text) => sql(text), slotName(id), "the load", 120_000);
  const isEmpty = async () => {
    const left = await parked(id);
    if (left.some(({ state }) => state === "Parked")) await retry(id);
    return left.length === 0;
  };
  await waitFor("the parking to be empty", isEmpty, { timeoutMs: 120_000, intervalMs: 500 });
  // What is on record late is so within a second.
  await Bun.sleep(1_500);
}

const placeOf = (partition: number, offset: number | bigint) => `${partition}@${offset}`;

/** Partitions and offsets, as receipts in the state have them. */
async function receipts(id: string): Promise<readonly string[]> {
  const rows = await server.query<{ body: string }>(
    `select encode(body, 'hex') as body from millrace.receipts where connector_id = '${id}' order by id`,
    "state",
  );
  return rows.flatMap(({ body }) =>
    [...decodeBody(new Uint8Array(Buffer.from(body, "hex")))].flatMap(({ topic, rows: kept }) => {
      expect(topic).toBe(topicOf(id));
      return Array.from(kept.offsets ?? [], (offset, row) => placeOf(kept.partitions![row]!, offset));
    }),
  );
}

const topicOf = (id: string) => `millrace.public.${id}`;

async function messages(id: string): Promise<readonly TopicMessage[]> {
  const all = await readTopic(cluster, topicOf(id), { isolation: "read_committed" });
  return all.filter(({ value }) => value !== null);
}

const keyOf = ({ headers }: TopicMessage) =>
  headers.find(([name]) => name === "Idempotency-Key")?.[1]?.toString() ?? "";

const explain = (id: string, row: number) =>
  api.call<Explanation>(
    "GET",
    `/api/v1/connectors/${id}/explain?${new URLSearchParams({ table: id, key: JSON.stringify({ id: row }) })}`,
  );

/** What is told of a row is what a consumer finds. */
async function expectExplained(id: string, row: number): Promise<void> {
  const explained = await explain(id, row);
  const ofRow = (await messages(id)).filter(({ value }) => JSON.parse(String(value)).id === row);
  const found = ofRow.map((message) => [keyOf(message), placeOf(message.partition, message.offset)]);
  const told = explained.deliveries.map(({ idempotency_key: key, kafka }) => [
    key ?? "",
    placeOf(kafka?.partition ?? -1, kafka?.offset ?? -1),
  ]);
  expect(explained).toMatchObject({ state: "Delivered", durable: true, open: [] });
  expect(told.toSorted()).toEqual(found.toSorted());
}

test("with transactions each committed message has one receipt, and nothing else has one", async () => {
  await create("exact", true);
  await killUnderLoad("exact");
  const committed = (await messages("exact")).map(({ partition, offset }) => placeOf(partition, offset));
  const kept = await receipts("exact");
  console.log(`with transactions: ${committed.length} messages, ${kept.length} receipts, ${kills} kills`);
  expect(committed.length).toBeGreaterThan(copied);
  // Where a broker died, it does not tell the offset of what it has already.
  const told = kept.filter((place) => !place.endsWith("@NaN"));
  expect(kept.length).toBe(committed.length);
  expect(told.length / kept.length).toBeGreaterThan(0.9);
  const places = new Set(committed);
  expect(told.filter((place) => !places.has(place))).toEqual([]);
  expect(new Set(told).size).toBe(told.length);
  for (const row of [1, 7, copied + 1]) await expectExplained("exact", row);
  const [staged] = await server.query<{ count: number }>(
    "select count(*)::int as count from millrace.sink_record_parts where connector_id = 'exact'",
    "state",
  );
  expect(staged?.count).toBe(0);
}, 300_000);

test("without transactions each message that is passed has a receipt, and each receipt a message", async () => {
  await create("plain", false);
  await killUnderLoad("plain");
  const all = await messages("plain");
  const places = new Map(all.map((message) => [placeOf(message.partition, message.offset), keyOf(message)]));
  const kept = await receipts("plain");
  console.log(`without transactions: ${all.length} messages, ${kept.length} receipts, ${kills} kills`);
  const told = kept.filter((place) => !place.endsWith("@NaN"));
  expect(told.filter((place) => !places.has(place))).toEqual([]);
  // One that came again may have no receipt of its first time.
  const withReceipt = new Set(told.map((place) => places.get(place)));
  const without = new Set(all.map(keyOf).filter((key) => !withReceipt.has(key)));
  expect(without.size).toBeLessThanOrEqual(kept.length - told.length);
  expect(await explain("plain", 1)).toMatchObject({ state: "Delivered", durable: true, open: [] });
}, 300_000);

test("a large transaction is staged in pieces, and each of its messages has a receipt", async () => {
  await create("vast", true);
  const begunMs = performance.now();
  await sql(`insert into vast select i, 0 from generate_series(${copied + 1}, ${copied + 200_000}) i`);
  await untilDurable((text) => sql(text), slotName("vast"), "the transaction", 120_000);
  console.log(`200,000 rows in ${Math.round(performance.now() - begunMs)} ms`);
  await Bun.sleep(1_500);
  const committed = (await messages("vast")).map(({ partition, offset }) => placeOf(partition, offset));
  expect(committed.length).toBe(copied + 200_000);
  const kept = new Set(await receipts("vast"));
  expect(kept.size).toBe(committed.length);
  expect(committed.filter((place) => !kept.has(place))).toEqual([]);
  expect(await explain("vast", copied + 150_000)).toMatchObject({ state: "Delivered", durable: true });
}, 300_000);
