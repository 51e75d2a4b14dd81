// The sink through its real worker to a real receiver, with changes made by hand.

import { afterEach, expect, test } from "bun:test";
import { type Checkpoint, copiesLogPrefix } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import type { TableShape } from "../../../src/change/relation.ts";
import type { CopyChunk } from "../../../src/sink/copy-sink.ts";
import type { Sink } from "../../../src/sink/sink.ts";
import { batches, type FixtureTransaction, relation, transaction } from "../../support/rows/batch-fixture.ts";
import { waitFor } from "../../support/wait-for.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../../support/webhook/webhook-rig.ts";

const users = relation("users", [
  ["id", 20, "bigint"],
  ["name", 25, "text"],
]);
const orders = relation("orders", [["id", 23, "integer"]], { id: 16_500 });

const start: Checkpoint = {
  resumeLsn: lsn(0x1000000n),
  partial: null,
  lastVersion: 1_600_000_000_000_000n,
};

const insert = (id: number, name = `n${id}`) =>
  ({ kind: "insert", relation: users, after: [String(id), name] }) as const;

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

function own<T extends AsyncDisposable>(value: T): T {
  owned.push(value);
  return value;
}

const receiver = async (options = {}) => own(await WebhookReceiver.start(options));
const rig = async (connector: Parameters<typeof WebhookRig.start>[0], store = new RecordStore()) =>
  own(await WebhookRig.start(connector, store));

test("changes arrive as rows, in one request per table, with headers and keys", async () => {
  const to = await receiver();
  const one = await rig(webhookConnector(to.url, { auth: { bearer: { token: "t0ken" } } }));
  const sink = one.sink();
  expect(await sink.open()).toBeNull();
  await sink.begin(start);
  const changes: FixtureTransaction[] = [
    transaction(1, [insert(1), insert(2, 'a"b\n')]),
    transaction(2, [
      { kind: "update", relation: users, after: ["1", "x"] },
      { kind: "delete", relation: users, before: ["2", null], oldIsKey: true },
      { kind: "insert", relation: orders, after: ["7"] },
    ]),
    transaction(3, [
      { kind: "update", relation: users, before: ["1", null], oldIsKey: true, after: ["9", "x"] },
    ]),
  ];
  for (const batch of batches(changes)) await sink.write(batch);
  await sink.flush();
  expect(to.requests.map(({ path }) => path).sort()).toEqual(["/public/orders", "/public/users"]);
  const request = to.requests.find(({ path }) => path === "/public/users")!;
  const at = (n: number, more = 0) => 1_700_000_000_000_000 + n * 1000 + more;
  expect(JSON.parse(request.body)).toEqual([
    { id: 1, name: "n1", _sm_version: at(1), _sm_deleted: false },
    { id: 2, name: 'a"b\n', _sm_version: at(1, 1), _sm_deleted: false },
    { id: 1, name: "x", _sm_version: at(2), _sm_deleted: false },
    { id: 2, name: null, _sm_version: at(2, 1), _sm_deleted: true },
    { id: 1, name: null, _sm_version: at(3), _sm_deleted: true },
    { id: 9, name: "x", _sm_version: at(3, 1), _sm_deleted: false },
  ]);
  expect(request.headers["x-source-schema"]).toBe("public");
  expect(request.headers["x-source-table"]).toBe("users");
  expect(request.headers["content-type"]).toBe("application/json");
  expect(request.headers.authorization).toBe("Bearer t0ken");
  const key = request.headers["idempotency-key"]!;
  expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(Number.parseInt(key.replaceAll("-", "").slice(0, 12), 16)).toBe(1_700_000_000_001);
  const durable = one.reports.durable.at(-1)!;
  expect(durable.checkpoint).toEqual({
    resumeLsn: changes[2]!.endLsn,
    partial: null,
    lastVersion: BigInt(at(3, 1)),
  });
});

test("a time-ended boundary is durable before the request that it cut short is sent", async () => {
  const to = await receiver();
  const store = new RecordStore();
  const one = await rig(webhookConnector(to.url), store);
  const sink = one.sink();
  await sink.open();
  await sink.begin(start);
  let open: () => void = () => undefined;
  store.gate = new Promise((resolve) => {
    open = resolve;
  });
  const { asked } = store;
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  await waitFor("the boundary to be recorded", () => store.asked > asked);
  expect(to.requests.length).toBe(0);
  open();
  await to.until(() => to.requests.length === 1);
});

test("the same requests with the same keys come again after a kill", async () => {
  const transactions = Array.from({ length: 60 }, (_, n) =>
    transaction(
      n + 1,
      Array.from({ length: 1 + (n % 5) }, (_, i) => insert(n * 10 + i)),
    ),
  );
  const connector = (url: string) =>
    webhookConnector(url, { batch: { max_batch_size: 7 } }, { limits: { cdc: { flush_interval_ms: 5 } } });
  const to = await receiver();
  const store = new RecordStore();
  let random = 42;
  const next = () => {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0;
    return random / 2 ** 32;
  };
  to.script = () => (next() < 0.2 ? { kind: "reset" } : next() < 0.2 ? 503 : undefined);
  for (let life = 0; life < 8; life++) {
    const one = await WebhookRig.start(
      { ...connector(to.url), sink: { webhook: { ...connector(to.url).sink.webhook!, retry: retry() } } },
      store,
    );
    const sink = one.sink();
    const checkpoint = await sink.open();
    if (!checkpoint) await sink.begin(start);
    const from = checkpoint ?? start;
    const last = life === 7;
    const parts = batches(transactions, { from, perBatch: 1 + Math.floor(next() * 9) });
    const some = last ? parts : parts.slice(0, Math.ceil(parts.length * 0.4));
    for (const batch of some) {
      await sink.write(batch);
      if (next() < 0.5) await Bun.sleep(next() * 12);
    }
    if (last) {
      await sink.flush();
      await one[Symbol.asyncDispose]();
    } else await one.kill();
  }
  const bodies = new Map<string, string>();
  for (const { headers, body } of to.requests) {
    const key = headers["idempotency-key"]!;
    if (bodies.has(key)) expect(body).toBe(bodies.get(key)!);
    bodies.set(key, body);
  }
  const rows = WebhookReceiver.rows(to.deduplicated);
  const ids = rows.map((row) => row.id as number);
  const wanted = transactions.flatMap(({ changes }) =>
    changes.map((c) => Number("after" in c && c.after[0])),
  );
  expect(ids.toSorted((a, b) => a - b)).toEqual(wanted);
  const versions = rows.map((row) => row._sm_version as number).toSorted((a, b) => a - b);
  expect(new Set(versions).size).toBe(wanted.length);
}, 30_000);

const retry = () => ({ max_retries: 0, max_retry_duration_ms: 0, initial_backoff_ms: 5, max_backoff_ms: 20 });

const usersTable: TableShape = {
  relation: users,
  primaryKey: ["id"],
  notNull: ["id"],
  estimatedRows: 3,
  estimatedBytes: 0,
  isPartitioned: false,
  storage: "",
};

/** The table's first copy, as one chunk, while the stream waits. */
async function copyWhole(
  sink: Sink,
  table: TableShape,
  rows: Pick<CopyChunk, "chunks" | "timeUs"> & Partial<CopyChunk>,
): Promise<void> {
  await using copy = await sink.copies.begin(table, "initial", "waits", new AbortController().signal);
  await copy.start(false);
  await copy.take({ table, form: "text", rowsRead: () => 0, lsn: lsn(5n), progress: () => {}, ...rows });
  expect(await copy.finish()).toBe("all");
}

test("where no stream follows, rows of a copy that is made again are newer than those of the one that was cut off", async () => {
  const to = await receiver();
  const store = new RecordStore();
  const connector = webhookConnector(to.url, { batch: { max_batch_size: 1 } });
  const copy = async (sink: Sink, timeUs: bigint, body: () => AsyncGenerator<Buffer>) =>
    await copyWhole(sink, usersTable, { chunks: body(), timeUs });
  const first = (await rig(connector, store)).sink();
  await first.open();
  await first.begin({ ...start, log: copiesLogPrefix });
  await first.prepare([usersTable], ["text"]);
  const cut = copy(first, start.lastVersion, async function* () {
    yield Buffer.from(`1\tbefore\n9\t${"x".repeat(1_200_000)}\n`);
    await waitFor("the first row", () => WebhookReceiver.rows(to.requests).some(({ id }) => id === 1));
    throw new Error("the source is gone");
  });
  expect(await cut.catch((error: unknown) => error)).toMatchObject({ message: "the source is gone" });
  const second = (await rig(connector, store)).sink();
  await second.open();
  expect((await second.prepare([usersTable], ["text"])).missing).toEqual([usersTable]);
  const later = start.lastVersion + 60_000_000n;
  await copy(second, later, async function* () {
    yield Buffer.from("1\tafter\n2\tafter\n");
  });
  const rows = WebhookReceiver.rows(to.requests).filter(({ id }) => id !== 9);
  expect(rows.map(({ name, _sm_version }) => [name, _sm_version])).toEqual([
    ["before", Number(start.lastVersion)],
    ["after", Number(later)],
    ["after", Number(later)],
  ]);
  const keys = to.requests.slice(-2).map(({ headers }) => headers["idempotency-key"]);
  expect(to.requests.slice(0, -2).map(({ headers }) => headers["idempotency-key"])).not.toContain(keys[0]);
});

test("a copy arrives with the version of the origin, and is remembered", async () => {
  const to = await receiver();
  const store = new RecordStore();
  const connector = webhookConnector(to.url, { batch: { max_batch_size: 2 } });
  const one = await rig(connector, store);
  const sink = one.sink();
  await sink.open();
  await sink.begin(start);
  const table = usersTable;
  const chunks = async function* () {
    yield Buffer.from("1\ta\\tb\n2\t\\");
    yield Buffer.from("N\n3\tä\n");
  };
  const taken: number[] = [];
  const timeUs = 1_600_000_000_000_000n;
  await copyWhole(sink, table, { chunks: chunks(), timeUs, progress: (rows) => taken.push(rows) });
  expect(WebhookReceiver.rows(to.requests).toSorted((a, b) => Number(a.id) - Number(b.id))).toEqual([
    { id: 1, name: "a\tb", _sm_version: 1_600_000_000_000_000, _sm_deleted: false },
    { id: 2, name: null, _sm_version: 1_600_000_000_000_000, _sm_deleted: false },
    { id: 3, name: "ä", _sm_version: 1_600_000_000_000_000, _sm_deleted: false },
  ]);
  expect(taken.at(-1)).toBe(3);
  await sink[Symbol.asyncDispose]();
  const again = one.sink();
  expect(await again.open()).toEqual(start);
  expect((await again.prepare([table], ["text"])).missing).toEqual([]);
  const recreated = { ...table, relation: { ...users, id: users.id + 1 } };
  expect((await again.prepare([recreated], ["text"])).missing).toEqual([recreated]);
  expect((await again.prepare([], ["text"])).missing).toEqual([]);
  expect((await again.prepare([table], ["text"])).missing).toEqual([table]);
});

test("a table that the stream has to wait for, and whose changes were delivered, is missing once nothing is a repetition", async () => {
  const to = await receiver();
  const one = await rig(webhookConnector(to.url));
  const table: TableShape = { ...usersTable, relation: { ...users, replicaIdentity: "index" } };
  const sink = one.sink();
  await sink.open();
  await sink.begin(start);
  // Before any change its copy may come at once.
  expect((await sink.prepare([table], ["text"])).missing).toEqual([table]);
  await copyWhole(sink, table, {
    timeUs: start.lastVersion,
    chunks: (async function* () {
      yield Buffer.from("1\ta\n");
    })(),
  });
  await sink[Symbol.asyncDispose]();
  let changes = 0;
  const again = one.sink({ changed: () => changes++ });
  await again.open();
  const recreated = { ...table, relation: { ...table.relation, id: users.id + 1 } };
  expect(await again.prepare([recreated], ["text"])).toMatchObject({ missing: [], hasChanges: true });
  expect((await again.prepare([recreated], ["text"])).missing).toEqual([recreated]);
  expect(changes).toBe(1);
});

test("a permanent refusal stops the session, keeps the place, and names table, place and key", async () => {
  const to = await receiver({ script: () => 410 });
  const store = new RecordStore();
  const one = await rig(webhookConnector(to.url), store);
  const sink = one.sink();
  await sink.open();
  await sink.begin(start);
  const refused = transaction(1, [insert(1, "secret-value")]);
  for (const batch of batches([refused])) await sink.write(batch);
  const error = await sink.flush().catch((e: unknown) => e);
  expect(error).toMatchObject({ code: "webhook_rejected" });
  const { message } = error as Error;
  expect(message).toContain("410");
  expect(message).toContain("public.users");
  expect(message).toContain(to.requests[0]!.headers["idempotency-key"]!);
  expect(message).not.toContain("secret-value");
  await sink[Symbol.asyncDispose]();
  to.script = () => 204;
  const again = one.sink();
  expect(await again.open()).toEqual({ ...start, reached: lsn(refused.commitLsn + 1n) });
  for (const batch of batches([refused])) await again.write(batch);
  await again.flush();
  expect(to.requests.length).toBe(2);
  expect(to.requests[1]!.headers["idempotency-key"]).toBe(to.requests[0]!.headers["idempotency-key"]!);
});
