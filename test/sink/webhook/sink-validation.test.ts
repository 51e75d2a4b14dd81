// The checks of a webhook sink against real receivers.

import { afterEach, expect, test } from "bun:test";
import { type AddressInfo, createServer } from "node:net";
import type { ValidateEvent } from "../../../src/connector/validation.ts";
import { validateWebhookSink } from "../../../src/sink/webhook/sink-validation.ts";
import { testServerCertificate, testServerKey } from "../../support/servers/tls-certificates.ts";
import { type ReceiverOptions, WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";
import { webhookConnector } from "../../support/webhook/webhook-rig.ts";

const owned: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of owned.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function receiver(options: ReceiverOptions = {}): Promise<WebhookReceiver> {
  const to = await WebhookReceiver.start(options);
  owned.push(to);
  return to;
}

/** Test and status of each event, in order: `DnsResolution Success`. */
function told(events: readonly ValidateEvent[]): string[] {
  return events.map((event) => {
    if (!event.test) return Object.keys(event)[0]!;
    const { test_type: type, status } = event.test;
    const name = type.Network?.subtype ?? type.Config?.name ?? Object.keys(type)[0];
    return `${name} ${Object.keys(status)[0]}`;
  });
}

const signal = new AbortController().signal;
const validate = (url: string, change: Parameters<typeof webhookConnector>[1] = {}) =>
  validateWebhookSink(webhookConnector(url, change).sink.webhook!, signal);

test("a receiver that takes an empty list, with the configured headers", async () => {
  const to = await receiver();
  const events = await validate(to.url, { auth: { bearer: { token: "t" } }, compression: "Gzip" });
  expect(told(events)).toEqual([
    "start",
    "DnsResolution Success",
    "Reachability Success",
    "TLS Skipped",
    "Connection Success",
    "Authentication Success",
    "Delivery Success",
    "success",
  ]);
  expect(to.requests.length).toBe(1);
  const [request] = to.requests;
  expect(request).toMatchObject({ method: "POST", body: "[]" });
  expect(request!.headers).toMatchObject({ authorization: "Bearer t", "content-encoding": "gzip" });
});

test.each([401, 403])("%d fails the authentication", async (status) => {
  const to = await receiver({ script: () => status });
  const events = await validate(to.url);
  expect(told(events).slice(-3)).toEqual(["Authentication Failed", "Delivery Skipped", "failed"]);
});

test.each([
  [302, "Failed", "Redirects are not followed: set url to the address that it names."],
  [400, "Warn", "A change that it answers so stops the connector: check url."],
  [404, "Warn", "A change that it answers so stops the connector: check url."],
  [500, "Warn", "The receiver answered 500 to an empty list."],
] as const)("%d: %s", async (status, type, text) => {
  const to = await receiver({ script: () => status });
  const events = await validate(to.url);
  expect(told(events).slice(-2)).toEqual([`Delivery ${type}`, type === "Failed" ? "failed" : "success"]);
  expect(JSON.stringify(events.at(-2))).toContain(text);
});

test("a receiver that does not answer is a warning", async () => {
  const to = await receiver({ script: () => ({ kind: "hang" }) });
  const events = await validate(to.url, { request_timeout_ms: 200 });
  expect(told(events).slice(4)).toEqual([
    "Connection Warn",
    "Authentication Skipped",
    "Delivery Skipped",
    "success",
  ]);
});

// Two that wait as long as a validation may take, at once.
test.concurrent("a silent receiver is a warning within 10 s, whatever request_timeout_ms is", async () => {
  await using to = await WebhookReceiver.start({ script: () => ({ kind: "hang" }) });
  const began = performance.now();
  const events = await validate(to.url, { request_timeout_ms: 600_000 });
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(told(events).slice(3)).toEqual([
    "TLS Skipped",
    "Connection Warn",
    "Authentication Skipped",
    "Delivery Skipped",
    "success",
  ]);
});

test.concurrent("one that is silent from the TLS handshake on is a warning, and no handshake counts as made", async () => {
  const silent = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const began = performance.now();
  const events = await validate(`https://127.0.0.1:${port}`, { request_timeout_ms: 600_000 });
  silent.close();
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(told(events).slice(2)).toEqual([
    "Reachability Success",
    "TLS Warn",
    "Connection Warn",
    "Authentication Skipped",
    "Delivery Skipped",
    "success",
  ]);
});

test("nobody listens; no such name; an address that is refused; a certificate that is not trusted", async () => {
  const gone = await WebhookReceiver.start();
  const { url } = gone;
  await gone[Symbol.asyncDispose]();
  expect(told(await validate(url))).toContain("Reachability Failed");
  expect(told(await validate(url.replace("http:", "https:")))).toContain("TLS Skipped");
  expect(told(await validate("http://nowhere.invalid/x"))).toContain("DnsResolution Failed");
  const refused = await validate("http://169.254.169.254/");
  expect(told(refused)).toContain("DnsResolution Failed");
  expect(refused.at(-1)!.failed!.reason).toContain("link-local");
  const to = await receiver({ tls: { cert: testServerCertificate, key: testServerKey } });
  const events = await validate(to.url);
  expect(told(events)).toContain("TLS Failed");
  expect(told(events).at(-1)).toBe("failed");
  expect(to.requests.length).toBe(0);
});
