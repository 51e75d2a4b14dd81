// The sender and the scheduler against receivers of all kinds, through the real worker.

import { afterEach, expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import { batches, relation, transaction } from "../../support/rows/batch-fixture.ts";
import { type ReceiverOptions, WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "../../support/webhook/webhook-rig.ts";

type Change = Parameters<typeof webhookConnector>[1];

const users = relation("users", [
  ["id", 20, "bigint"],
  ["name", 25, "text"],
]);
const other = relation("other", [["id", 23, "integer"]], { id: 16_500 });
const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1n };
const insert = (id: number, name = `n${id}`) =>
  ({ kind: "insert", relation: users, after: [String(id), name] }) as const;
const quick = { initial_backoff_ms: 10, max_backoff_ms: 40, max_retries: 0, max_retry_duration_ms: 0 };

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function receiver(options: ReceiverOptions = {}): Promise<WebhookReceiver> {
  const to = await WebhookReceiver.start(options);
  owned.push(to);
  return to;
}

async function begun(url: string, change: Change = {}) {
  const rig = await WebhookRig.start(webhookConnector(url, { retry: quick, ...change }), new RecordStore());
  owned.push(rig);
  const sink = rig.sink();
  await sink.open();
  await sink.begin(start);
  return { rig, sink };
}

const rowsOf = (to: WebhookReceiver) => WebhookReceiver.rows(to.delivered);

test("failures that may pass are tried again with the same key and body; the health says so", async () => {
  const answers = [503, 429, 408, 425, 500, 200];
  const to = await receiver({ script: ({ index }) => answers[index] });
  const { rig, sink } = await begun(to.url);
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  await sink.flush();
  expect(to.requests.length).toBe(6);
  expect(new Set(to.requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  expect(new Set(to.requests.map(({ body }) => body)).size).toBe(1);
  expect(rig.reports.retries.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, null]);
  expect(rig.reports.retries[0]!.reason).toContain("503");
});

test("resets, silence and endless bodies never hold a request longer than the timeout", async () => {
  const to = await receiver({
    script: ({ index }) => {
      if (index === 0) return { kind: "reset" };
      if (index === 1) return { kind: "hang" };
      if (index === 2) return { kind: "endless", status: 500, chunk: "x".repeat(20_000) };
      if (index === 3) return { kind: "endless", status: 200, chunk: null };
      return undefined;
    },
  });
  const { sink } = await begun(to.url, { request_timeout_ms: 1_000 });
  const began = performance.now();
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  await sink.flush();
  expect(to.requests.length).toBe(4);
  expect(performance.now() - began).toBeLessThan(10_000);
});

test("Retry-After is a lower bound", async () => {
  const to = await receiver({
    script: ({ index }) =>
      index === 0 ? { kind: "answer", status: 503, headers: { "Retry-After": "1" } } : undefined,
  });
  const { sink } = await begun(to.url);
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  await sink.flush();
  expect(to.requests[1]!.receivedMs - to.requests[0]!.receivedMs).toBeGreaterThanOrEqual(990);
});

test.each([301, 302, 307, 400, 401, 404, 422])("%d is permanent and not followed", async (status) => {
  const to = await receiver({
    script: ({ path }) =>
      path === "/public/users" ? { kind: "answer", status, headers: { Location: "/elsewhere" } } : undefined,
  });
  const { sink } = await begun(to.url);
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  expect(await sink.flush().catch((error) => error)).toMatchObject({ code: "webhook_rejected" });
  expect(to.requests.length).toBe(1);
});

test("retries end at max_retries, and at max_retry_duration_ms", async () => {
  const to = await receiver({ script: () => 503 });
  const one = await begun(to.url, { retry: { ...quick, max_retries: 2 } });
  for (const batch of batches([transaction(1, [insert(1)])])) await one.sink.write(batch);
  expect(await one.sink.flush().catch((error) => error)).toMatchObject({ code: "webhook_retries_exhausted" });
  expect(to.requests.length).toBe(3);
  const two = await begun(to.url, { retry: { ...quick, max_retry_duration_ms: 100 } });
  for (const batch of batches([transaction(1, [insert(1)])])) await two.sink.write(batch);
  const error = (await two.sink.flush().catch((e: unknown) => e)) as Error;
  expect(error).toMatchObject({ code: "webhook_retries_exhausted" });
  expect(error.message).toContain("max_retry_duration_ms");
});

test("one row is never in flight twice and comes in order, others go side by side", async () => {
  let fail = 0;
  const to = await receiver({
    script: () => (fail++ % 5 === 0 ? 503 : { kind: "answer", status: 200, delayMs: 20 }),
  });
  const { sink } = await begun(to.url, { batch: { max_batch_size: 1 } });
  const changes = Array.from({ length: 300 }, (_, n) => insert(n % 20, `v${n}`));
  for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
  await sink.flush();
  expect(to.maxInFlight).toBeGreaterThan(8);
  const lastOf = new Map<unknown, number>();
  for (const row of rowsOf(to)) {
    const version = row._sm_version as number;
    expect(version).toBeGreaterThan(lastOf.get(row.id) ?? 0);
    lastOf.set(row.id, version);
  }
  expect(rowsOf(to).length).toBe(300);
});

test("no more requests are under way than max_in_flight", async () => {
  const to = await receiver({ script: () => ({ kind: "answer", status: 200, delayMs: 5 }) });
  const { sink } = await begun(to.url, { batch: { max_batch_size: 1 }, max_in_flight: 3 });
  const changes = Array.from({ length: 60 }, (_, n) => insert(n));
  for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
  await sink.flush();
  expect(to.maxInFlight).toBe(3);
});

test("a table whose endpoint fails does not hold up another", async () => {
  const to = await receiver({ script: ({ path }) => (path.endsWith("/users") ? 503 : undefined) });
  const { sink } = await begun(to.url, { batch: { max_batch_size: 1 } });
  const changes = Array.from({ length: 100 }, (_, n) => [
    insert(n),
    { kind: "insert", relation: other, after: [String(n)] } as const,
  ]).flat();
  for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
  await to.until(() => to.delivered.length === 100);
  expect(to.delivered.every(({ path }) => path.endsWith("/other"))).toBe(true);
  to.script = () => undefined;
  await sink.flush();
  expect(to.delivered.length).toBe(200);
});

test("the request rate is kept to from the first on: no request comes before its turn", async () => {
  const to = await receiver();
  const limits = { max_requests_per_second: 50, max_bytes_per_second: 0 };
  const { sink } = await begun(to.url, { batch: { max_batch_size: 1 }, rate_limit: limits });
  const changes = Array.from({ length: 40 }, (_, n) => insert(n));
  const began = performance.now();
  for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
  await sink.flush();
  // A busy machine may hold requests up, and they may arrive close to each other: only what is early is wrong.
  const early = to.requests.filter(({ receivedMs }, i) => receivedMs - began < i * 20 - 5);
  expect(early).toEqual([]);
  expect(to.requests.length).toBe(40);
});

test("max_payload_bytes counts the uncompressed body; a larger row goes alone", async () => {
  const to = await receiver();
  const { sink } = await begun(to.url, { batch: { max_payload_bytes: 400 }, compression: "Gzip" });
  const changes = [
    ...Array.from({ length: 20 }, (_, n) => insert(n)),
    insert(99, "x".repeat(1000)),
    insert(100),
  ];
  for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
  await sink.flush();
  for (const { body } of to.requests) {
    const rows = JSON.parse(body) as unknown[];
    if (body.length > 400) expect(rows.length).toBe(1);
  }
  expect(to.requests.filter(({ body }) => body.length > 300).length).toBeGreaterThan(3);
  expect(rowsOf(to).length).toBe(22);
});

test.each(["None", "Gzip", "Zstd", "Br"] as const)("compression %s", async (compression) => {
  const to = await receiver();
  const { sink } = await begun(to.url, { compression });
  const changes = Array.from({ length: 500 }, (_, n) => insert(n, "abc".repeat(20)));
  for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
  await sink.flush();
  const expected = { None: undefined, Gzip: "gzip", Zstd: "zstd", Br: "br" }[compression];
  expect(to.requests[0]!.headers["content-encoding"]).toBe(expected as string);
  expect(rowsOf(to).length).toBe(500);
  if (compression !== "None") expect(to.requests[0]!.wireBytes).toBeLessThan(to.requests[0]!.body.length / 4);
});

test("an address that is refused stops the run before anything is sent", async () => {
  const { sink } = await begun("http://169.254.169.254/latest");
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  const error = (await sink.flush().catch((e: unknown) => e)) as Error;
  expect(error).toMatchObject({ code: "webhook_address_refused" });
  expect(error.message).toMatch(/link-local.*1 row of public\.users at .*Idempotency-Key/);
});

test("rows of a schema that is called .. go nowhere, and stop the run", async () => {
  const to = await receiver();
  const { sink } = await begun(to.url);
  const outside = { ...users, schema: ".." };
  const change = { kind: "insert", relation: outside, after: ["1", "n"] } as const;
  for (const batch of batches([transaction(1, [change])])) await sink.write(batch);
  const error = (await sink.flush().catch((e: unknown) => e)) as Error;
  expect(error).toMatchObject({ code: "webhook_address_refused" });
  expect(error.message).toMatch(/^the names of schema \.\. and table users .*path_template.*Idempotency-Key/);
  expect(to.requests).toEqual([]);
});

test("a receiver that is down is found again", async () => {
  const down = await WebhookReceiver.start();
  const { port, url } = down;
  await down[Symbol.asyncDispose]();
  const { rig, sink } = await begun(url);
  for (const batch of batches([transaction(1, [insert(1)])])) await sink.write(batch);
  const flushed = sink.flush();
  while (rig.reports.retries.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  const to = await receiver({ port });
  await flushed;
  expect(to.requests.length).toBe(1);
  expect(rig.reports.retries.at(-1)!.attempt).toBeNull();
});

test("HTTP/1.0 and a connection that is closed after each response", async () => {
  const bodies: string[] = [];
  const server = createServer((socket: Socket) => {
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      text += chunk.toString();
      const at = text.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (at < 0 || text.length < at + 4 + length) return;
      bodies.push(text.slice(at + 4));
      socket.end("HTTP/1.0 200 OK\r\n\r\nok");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as { port: number };
    const { sink } = await begun(`http://localhost:${port}`, { batch: { max_batch_size: 1 } });
    const changes = [insert(1), insert(2), insert(3)];
    for (const batch of batches([transaction(1, changes)])) await sink.write(batch);
    await sink.flush();
    expect(bodies.length).toBe(3);
  } finally {
    server.close();
  }
});

test("memory is bounded while a receiver hangs: writes wait", async () => {
  const to = await receiver({ script: () => ({ kind: "hang" }) });
  const { sink } = await begun(to.url, { request_timeout_ms: 60_000 });
  const big = "x".repeat(50_000);
  let written = 0;
  const changes = Array.from({ length: 40 }, (_, n) => insert(n, big));
  const writing = (async () => {
    for (let n = 0; n < 100; n++) {
      for (const batch of batches([transaction(n + 1, changes)])) await sink.write(batch);
      written++;
    }
  })();
  writing.catch(() => undefined);
  await to.until(() => to.inFlight > 0);
  const before = written;
  await new Promise((resolve) => setTimeout(resolve, 500));
  // 2 MB each: the budget is 16 MiB of bodies, 16 MiB of batches, and one window of 8 MiB.
  expect(written).toBeLessThan(40);
  expect(written).toBeGreaterThanOrEqual(before);
});
