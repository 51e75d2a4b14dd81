// The pure rules of sending: delays, verdicts, pace, addresses, headers, signatures.

import { describe, expect, spyOn, test } from "bun:test";
import { STATUS_CODES } from "node:http";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { sleepOrThrow } from "../../../src/concurrency/sleep.ts";
import { AddressResolver, refusal } from "../../../src/connection/egress.ts";
import type { Attempt } from "../../../src/sink/delivery/order/attempt.ts";
import { backoffDelay, decideRetry } from "../../../src/sink/delivery/order/backoff.ts";
import { ConnectionPool } from "../../../src/sink/http/connection-pool.ts";
import { RateLimiter } from "../../../src/sink/webhook/rate-limiter.ts";
import { attemptHeaders, requestHeaders } from "../../../src/sink/webhook/request-headers.ts";
import { responseVerdict, retryAfterMs, statusName } from "../../../src/sink/webhook/response-verdict.ts";
import { createSender, type SenderTools } from "../../../src/sink/webhook/sender.ts";
import { targetUrl } from "../../../src/sink/webhook/target-url.ts";
import { WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { webhookConnector } from "../../support/webhook/webhook-rig.ts";

const policy = { maxRetries: 3, maxRetryDurationMs: 10_000, initialBackoffMs: 1000, maxBackoffMs: 180_000 };

test("the delay is half fixed, half random, and bounded", () => {
  expect(backoffDelay(policy, 0, 0)).toBe(500);
  expect(backoffDelay(policy, 0, 0.999)).toBeCloseTo(999.5);
  expect(backoffDelay(policy, 3, 0.5)).toBe(6000);
  expect(backoffDelay(policy, 5000, 0)).toBe(90_000);
});

test("retries end at whichever limit comes first; 0 is unlimited", () => {
  const failed = { attempts: 1, elapsedMs: 0, retryAfterMs: 0, random: 0 };
  expect(decideRetry(policy, failed)).toEqual({ kind: "wait", delayMs: 500 });
  expect(decideRetry(policy, { ...failed, attempts: 3 }).kind).toBe("wait");
  expect(decideRetry(policy, { ...failed, attempts: 4 })).toEqual({
    kind: "exhausted",
    limit: "max_retries",
  });
  const late = { ...failed, elapsedMs: 9_800 };
  expect(decideRetry(policy, late)).toEqual({ kind: "exhausted", limit: "max_retry_duration_ms" });
  const unlimited = { ...policy, maxRetries: 0, maxRetryDurationMs: 0 };
  expect(decideRetry(unlimited, { ...late, attempts: 1e6, elapsedMs: 1e12 }).kind).toBe("wait");
  expect(decideRetry(policy, { ...failed, retryAfterMs: 7000 })).toEqual({ kind: "wait", delayMs: 7000 });
});

test("a receiver that asks for longer than the retries last is asked once more as they end", () => {
  const failed = { attempts: 1, elapsedMs: 4_000, retryAfterMs: 7_200_000, random: 0 };
  expect(decideRetry(policy, failed)).toEqual({ kind: "wait", delayMs: 6_000 });
  const last = { ...failed, attempts: 2, elapsedMs: 10_000 };
  expect(decideRetry(policy, last)).toEqual({ kind: "exhausted", limit: "max_retry_duration_ms" });
  const unlimited = { ...policy, maxRetryDurationMs: 0 };
  expect(decideRetry(unlimited, failed)).toEqual({ kind: "wait", delayMs: 7_200_000 });
});

test("a wait may be longer than a timer's longest, and ends with its signal", async () => {
  const stop = new AbortController();
  let isOver = false;
  const waiting = sleepOrThrow(2 ** 31 + 5, stop.signal).finally(() => {
    isOver = true;
  });
  await Bun.sleep(20);
  expect(isOver).toBe(false);
  stop.abort(new Error("stopped"));
  expect(await waiting.catch((error: unknown) => error)).toMatchObject({ message: "stopped" });
  await sleepOrThrow(1, new AbortController().signal);
});

test("a status counts by itself where HTTP has it, and else by its class", () => {
  for (let status = 100; status < 1000; status++)
    expect(statusName(status)).toBe(status in STATUS_CODES ? String(status) : `${String(status)[0]}xx`);
});

test("every status has one meaning", () => {
  for (let status = 200; status < 600; status++) {
    const verdict = responseVerdict(status);
    const retried = [408, 425, 429].includes(status) || status >= 500;
    expect(verdict).toBe(status < 300 ? "delivered" : retried ? "retry" : "rejected");
  }
});

test("Retry-After in seconds, as a date, and as nonsense", () => {
  const now = Date.UTC(2024, 0, 1);
  expect(retryAfterMs("120", now)).toBe(120_000);
  expect(retryAfterMs("Mon, 01 Jan 2024 00:00:30 GMT", now)).toBe(30_000);
  expect(retryAfterMs("Sun, 31 Dec 2023 00:00:30 GMT", now)).toBe(0);
  for (const odd of [null, "", "soon", "-5", "1.5", "99999999999"]) expect(retryAfterMs(odd, now)).toBe(0);
});

test("requests are spread evenly, never in bursts", () => {
  const rateLimiter = new RateLimiter({ maxRequestsPerSecond: 10, maxBytesPerSecond: 1000 });
  expect(rateLimiter.delayMs(0, 0)).toBe(0);
  expect(rateLimiter.delayMs(0, 0)).toBe(100);
  // Nothing is saved up while idle.
  expect(rateLimiter.delayMs(500, 10_000)).toBe(0);
  expect(rateLimiter.delayMs(1, 10_000)).toBe(500);
  expect(new RateLimiter({ maxRequestsPerSecond: 0, maxBytesPerSecond: 0 }).delayMs(1e9, 5)).toBe(0);
});

test.each([
  ["169.254.169.254", false, false],
  ["::ffff:169.254.169.254", false, false],
  ["64:ff9b::a9fe:a9fe", false, false],
  ["64:ff9b::808:808", true, true],
  // 169.254.169.254 behind each length of a local prefix, and 10.0.0.1.
  ["64:ff9b:1:a9fe:a9:fe00:808:808", false, false],
  ["64:ff9b:1:a9:fe:a9fe:808:808", false, false],
  ["64:ff9b:1:0:a9:fea9:fe08:808", false, false],
  ["64:ff9b:1::a9fe:a9fe", false, false],
  ["64:ff9b:1::a00:1", true, false],
  ["64:ff9b:1::808:808", true, true],
  ["64:ff9b:1::c000:c0", false, false],
  ["64:ff9b:1:c000:0:c000::", false, false],
  ["64:ff9b:1::", true, false],
  ["64:ff9b:1::f000:1", true, false],
  ["64:ff9b:1:808:8:800::", true, true],
  ["::ffff:0:169.254.169.254", false, false],
  ["::ffff:0:8.8.8.8", true, true],
  ["fd00:ec2::23", false, false],
  ["fd00:42::42", false, false],
  ["2002:a9fe:a9fe::1", false, false],
  ["fe80::1%eth0", false, false],
  ["fd00:ec2::254", false, false],
  ["100.100.100.200", false, false],
  ["224.0.0.1", false, false],
  ["127.0.0.1", true, false],
  ["::1", true, false],
  ["10.1.2.3", true, false],
  ["192.168.0.1", true, false],
  ["100.64.0.1", true, false],
  ["fd12::1", true, false],
  ["0.0.0.0", true, false],
  ["8.8.8.8", true, true],
  ["2606:4700::1111", true, true],
])("%s: by default %p, under the public policy %p", (address, byDefault, whenPublic) => {
  expect(refusal(address, "default") === null).toBe(byDefault);
  expect(refusal(address, "public") === null).toBe(whenPublic);
});

test("a name that resolves to refused addresses only is refused, anew after each lifetime", async () => {
  let now = 0;
  let answer = ["10.0.0.1", "169.254.169.254"];
  let asked = 0;
  const lookup = () => {
    asked++;
    return Promise.resolve(answer);
  };
  const resolver = new AddressResolver("default", lookup, () => now);
  expect(await resolver.addresses("hook.example")).toEqual(["10.0.0.1"]);
  expect(await resolver.addresses("hook.example")).toEqual(["10.0.0.1"]);
  expect(asked).toBe(1);
  now = 1001;
  answer = ["169.254.169.254"];
  expect(await resolver.addresses("hook.example").catch((e) => e)).toMatchObject({
    code: "webhook_address_refused",
  });
  now = 2500;
  answer = ["10.0.0.1", "10.0.0.2"];
  await resolver.addresses("hook.example");
  resolver.worked("hook.example", "10.0.0.2");
  expect(await resolver.addresses("hook.example")).toEqual(["10.0.0.2", "10.0.0.1"]);
});

test("the path template is percent-encoded and appended", () => {
  const url = (base: string, template: string) => targetUrl(base, template, "my schema", "a/b?ü");
  expect(url("https://x.example", "w/{schema}/{table}")).toBe(
    "https://x.example/w/my%20schema/a%2Fb%3F%C3%BC",
  );
  expect(url("https://x.example/base/", "/w")).toBe("https://x.example/base/w");
  expect(url("https://x.example/base?k=1", "w?t={table}")).toBe(
    "https://x.example/base/w?k=1&t=a%2Fb%3F%C3%BC",
  );
  expect(url("https://x.example/base", "")).toBe("https://x.example/base");
});

describe("a name that leads to another path is refused", () => {
  const url = (template: string, schema: string, table: string) =>
    targetUrl("https://x.example/base/", template, schema, table);
  test.each([
    ["{schema}/{table}", "..", "admin"],
    ["w/{schema}/{table}?k=1", "public", "."],
    ["w/{schema}{table}/x", ".", "."],
    ["w/.{table}", "public", "."],
    ["w/%2E{table}", "public", "."],
    ["w\\{schema}\\{table}", "..", "t"],
  ])("%s of %s and %s", (template, schema, table) => {
    expect(() => url(template, schema, table)).toThrow(
      expect.objectContaining({
        code: "webhook_address_refused",
        message: expect.stringContaining(`schema ${schema} and table ${table} `),
      }),
    );
  });

  test("and others stay where they are", () => {
    for (const [template, schema, table, path] of [
      ["{schema}.{table}", "..", ".", "/base/....", ""],
      ["w/{schema}/{table}", "...", ".a", "/base/w/.../.a"],
      ["w/{schema}", "%2e%2e", "t", "/base/w/%252e%252e"],
      ["w/{schema}", "../x", "t", "/base/w/..%2Fx"],
      ["w?t={table}", "..", "..", "/base/w"],
      ["../w/{table}", "s", "t", "/w/t"],
    ] as const)
      expect(new URL(url(template, schema, table)).pathname).toBe(path);
  });
});

test("a signal is listened to once, however often the stream and the retries of what is parked take turns", async () => {
  await using stack = new AsyncDisposableStack();
  const to = await WebhookReceiver.start();
  stack.use(to);
  using pool = new ConnectionPool();
  const sender = senderTo(pool, to.url);
  const signals = [new AbortController().signal, new AbortController().signal];
  const listened = signals.map((signal) => spyOn(signal, "addEventListener"));
  for (let i = 0; i < 6; i++) {
    const sent = sender({ ...oneRow(attempt.body), idempotencyKey: `key-${i}` }, signals[i % 2]!);
    expect(await sent).toMatchObject({ kind: "delivered" });
  }
  expect(listened.map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
});

test("an attempt tells the bytes of its body, as sent and before compression, whatever comes of it", async () => {
  await using to = await WebhookReceiver.start({ script: ({ index }) => (index === 0 ? 503 : 200) });
  using pool = new ConnectionPool();
  const told: unknown[][] = [];
  const sender = senderTo(pool, to.url, { compression: "Br" }, (...attempt) => void told.push(attempt));
  const request = oneRow(new TextEncoder().encode(`[{"a":"${"x".repeat(10_000)}"}]`));
  const { signal } = new AbortController();
  for (const kind of ["retry", "delivered"]) expect(await sender(request, signal)).toMatchObject({ kind });
  expect(told.map(([result, bytes, uncompressed]) => [result, Number(bytes) < 200, uncompressed])).toEqual([
    ["503", true, 10_010],
    ["200", true, 10_010],
  ]);
});

const source = { schema: "public", table: "täble" };
const oneRow = (body: Uint8Array<ArrayBuffer>) => {
  return { ...source, body, rows: 1, touches: [], barrier: false, position: null, idempotencyKey: "key" };
};

function senderTo(
  pool: ConnectionPool,
  url: string,
  sink: Parameters<typeof webhookConnector>[1] = {},
  attempted: SenderTools["attempted"] = () => {},
): Attempt {
  return createSender(webhookConnector(url, sink).sink.webhook!, {
    egress: { resolver: new AddressResolver("default"), pool },
    rateLimiter: new RateLimiter({ maxRequestsPerSecond: 0, maxBytesPerSecond: 0 }),
    now: Date.now,
    monotonic: () => performance.now(),
    sleep: sleepOrThrow,
    attempted,
  });
}

const attempt = {
  idempotencyKey: "the-key",
  body: new TextEncoder().encode('[{"a":"ü"}]'),
  nowMs: Date.now(),
};

test("auth, source and content headers win over static ones; each source header can be renamed or left out", () => {
  const config = webhookConnector("http://x.example", {
    compression: "Zstd",
    auth: { basic: { username: "u", password: "pä:ss" } },
    headers: {
      source_schema: false,
      source_table_header: "X-T",
      idempotency_key_header: "X-Key",
      static_: [
        { name: "content-type", value: "text/plain" },
        { name: "Content-Length", value: "1" },
        { name: "Content-Encoding", value: "br" },
        { name: "Content-Language", value: "de" },
        { name: "authorization", value: "none" },
        { name: "x-t", value: "static" },
        { name: "x-key", value: "static" },
        { name: "Host", value: "elsewhere" },
        { name: "X-Env", value: "prod" },
      ],
    },
  }).sink.webhook!;
  const headers = { ...requestHeaders(config, source), ...attemptHeaders(config, attempt) };
  const basic = `Basic ${Buffer.from("u:pä:ss").toString("base64")}`;
  const lower = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  expect(Object.keys(lower).length).toBe(Object.keys(headers).length);
  expect(lower).toEqual({
    accept: "*/*",
    "user-agent": "millrace",
    "content-type": "application/json",
    "content-encoding": "zstd",
    "content-language": "de",
    authorization: basic,
    "x-t": "t%C3%A4ble",
    "x-key": "the-key",
    "x-env": "prod",
  });
});

test("static headers of one name are all sent, and a key in the place of a signature's id stands there once", () => {
  const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
  const config = webhookConnector("http://x.example", {
    headers: {
      idempotency_key_header: "Webhook-Id",
      static_: [
        { name: "X-Tag", value: "a" },
        { name: "x-tag", value: "b" },
        { name: "User-Agent", value: "mine" },
      ],
    },
    signing: { secret },
  }).sink.webhook!;
  const headers = { ...requestHeaders(config, source), ...attemptHeaders(config, attempt) };
  expect(headers).toMatchObject({ "x-tag": "a, b", "user-agent": "mine", "webhook-id": "the-key" });
  expect(Object.keys(headers).filter((name) => name.toLowerCase() === "webhook-id").length).toBe(1);
  const sent = Object.fromEntries(new Headers(headers));
  new Webhook(secret).verify(Buffer.from(attempt.body).toString(), sent);
});

test("a header of one's own for auth", () => {
  const config = webhookConnector("http://x.example", {
    auth: { header: { name: "X-Api-Key", value: "k" } },
  });
  expect(requestHeaders(config.sink.webhook!, source)["x-api-key"]).toBe("k");
});

test("signatures are those of Standard Webhooks", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 24, maxLength: 64 }), fc.string(), (key, text) => {
      const secret = `whsec_${Buffer.from(key).toString("base64")}`;
      const config = webhookConnector("http://x.example", { signing: { secret } }).sink.webhook!;
      const body = new TextEncoder().encode(JSON.stringify([text]));
      const headers = attemptHeaders(config, { ...attempt, body });
      const verified = new Webhook(secret).verify(Buffer.from(body).toString(), headers);
      expect(verified).toEqual([text]);
    }),
    { numRuns: 50 },
  );
});
