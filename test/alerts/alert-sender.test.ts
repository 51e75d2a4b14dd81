// Alerts on their way to a real receiver: one that is away, one that hangs, one that refuses.

import { afterAll, afterEach, expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import { failedAlert } from "../../src/alerts/alert.ts";
import { AlertSender } from "../../src/alerts/alert-sender.ts";
import { AlertWatch } from "../../src/alerts/alert-watch.ts";
import { startAlerts } from "../../src/alerts/start-alerts.ts";
import { sleepOrThrow } from "../../src/concurrency/sleep.ts";
import { AddressResolver } from "../../src/connection/egress.ts";
import { createLog } from "../../src/log.ts";
import { ConnectionPool } from "../../src/sink/http/connection-pool.ts";
import { usedMs } from "../support/processor-time.ts";
import { waitFor } from "../support/wait-for.ts";
import { type ReceiverScript, WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const path = "/services/planted-path";
const resources = new AsyncDisposableStack();
let lines: string[] = [];
afterEach(() => {
  lines = [];
});
afterAll(() => resources[Symbol.asyncDispose]());

const log = createLog({ level: "debug", readable: false, write: (line) => lines.push(line) });
const logged = (text: string) => lines.filter((line) => line.includes(text));

function tools(waitMs = 5) {
  return {
    egress: { resolver: new AddressResolver("default"), pool: resources.use(new ConnectionPool()) },
    log,
    now: Date.now,
    monotonic: () => performance.now(),
    random: () => 0,
    sleep: (_: number, signal: AbortSignal) => sleepOrThrow(waitMs, signal),
  };
}

function senderTo(receiver: WebhookReceiver, waitMs?: number): AlertSender {
  return new AlertSender({ url: `${receiver.url}${path}`, secret }, tools(waitMs));
}

const alert = (connector: string) =>
  failedAlert(connector, Date.now(), { realtime: { name: "s" } }, "It is over.");
const idsOf = (receiver: WebhookReceiver) => receiver.delivered.map(({ headers }) => headers["webhook-id"]);
const connectorsOf = (receiver: WebhookReceiver) =>
  receiver.delivered.map(({ body }) => JSON.parse(body).data.connector_id);

test("an alert is one signed POST, with a line of text for chat services", async () => {
  await using receiver = await WebhookReceiver.start();
  await using sender = senderTo(receiver);
  sender.send(alert("orders"));
  await receiver.until(() => receiver.delivered.length === 1);
  const [request] = receiver.requests;
  expect(request).toMatchObject({ method: "POST", path, headers: { "content-type": "application/json" } });
  const body = new Webhook(secret).verify(request!.body, { ...request!.headers });
  expect(body).toEqual({
    type: "connector.failed",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    data: { connector_id: "orders", state: "realtime", reason: "It is over." },
    text: "Connector orders has failed: It is over.",
  });
});

test("without a secret there is an id, and no signature", async () => {
  await using receiver = await WebhookReceiver.start();
  await using sender = new AlertSender({ url: receiver.url, secret: null }, tools());
  sender.send(alert("orders"));
  await receiver.until(() => receiver.delivered.length === 1);
  const { headers } = receiver.requests[0]!;
  expect(headers["webhook-id"]).toMatch(/^msg_[0-9a-f-]{36}$/);
  expect(headers["webhook-signature"]).toBeUndefined();
});

test("a receiver that is away for a while gets every alert once, in order", async () => {
  const away = await WebhookReceiver.start();
  const { port } = away;
  await away[Symbol.asyncDispose]();
  await using sender = new AlertSender({ url: `http://127.0.0.1:${port}${path}`, secret }, tools());
  const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
  for (const name of names) sender.send(alert(name));
  await waitFor("the first failure", () => logged("do not get through").length === 1);
  await Bun.sleep(50);
  // Back, and unwell for some more requests.
  const script: ReceiverScript = ({ index }) => (index < 5 ? [503, 429, 500, 408, 503][index] : undefined);
  await using receiver = await WebhookReceiver.start({ port, script });
  await receiver.until(() => receiver.delivered.length === names.length);
  expect(connectorsOf(receiver)).toEqual(names);
  expect(new Set(idsOf(receiver)).size).toBe(names.length);
  // Repetitions bear the id of what they repeat.
  expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(names.length);
  expect([logged("do not get through").length, logged("get through again").length]).toEqual([1, 1]);
  expect(lines.join("")).not.toContain("planted-path");
});

test("an answer that no retry can mend loses its alert, says so, and the next one goes out", async () => {
  const script: ReceiverScript = ({ index }) => (index === 0 ? 400 : undefined);
  await using receiver = await WebhookReceiver.start({ script });
  await using sender = senderTo(receiver);
  for (const name of ["a", "b"]) sender.send(alert(name));
  await receiver.until(() => receiver.delivered.length === 1);
  expect(connectorsOf(receiver)).toEqual(["b"]);
  const [lost] = logged("an alert is lost").map((line) => JSON.parse(line));
  expect(lost).toMatchObject({
    type: "connector.failed",
    connector: "a",
    reason: "the receiver answered 400",
  });
  expect(lines.join("")).not.toContain("planted-path");
});

/** A receiver that fails on some alerts, and a sender whose waits pass at once, on a clock that they move. */
async function failingOn(isRefused: (body: string) => boolean) {
  const clock = { ms: 0 };
  /** When requests arrived that were taken. */
  const takenMs: number[] = [];
  const script: ReceiverScript = ({ body }) => {
    if (isRefused(body)) return 500;
    takenMs.push(clock.ms);
    return 200;
  };
  const receiver = resources.use(await WebhookReceiver.start({ script }));
  const sleep = async (ms: number, signal: AbortSignal) => {
    await sleepOrThrow(1, signal);
    clock.ms += ms;
  };
  const passing = { ...tools(), monotonic: () => clock.ms, sleep };
  const sender = new AlertSender({ url: receiver.url, secret: null }, passing);
  return { receiver, clock, takenMs, sender };
}

test("an alert that the receiver cannot take holds up those of its connector alone", async () => {
  let isMended = false;
  const { receiver, clock, takenMs, sender } = await failingOn(
    (body) => !isMended && body.includes("broken"),
  );
  sender.send(alert("broken"));
  sender.send(alert("a"));
  sender.send({ ...alert("broken"), text: "the next one" });
  await receiver.until(() => receiver.delivered.length === 1);
  expect(takenMs[0]).toBeLessThan(60_000);
  expect(connectorsOf(receiver)).toEqual(["a"]);
  const [waiting] = logged("behind those of other connectors").map((line) => JSON.parse(line));
  expect(waiting).toMatchObject({
    type: "connector.failed",
    connector: "broken",
    reason: "the receiver answered 500",
  });
  // Long after.
  await waitFor("an hour to pass", () => clock.ms > 3_600_000);
  const fromMs = clock.ms;
  for (const name of ["b", "c"]) sender.send(alert(name));
  await receiver.until(() => receiver.delivered.length === 3);
  expect(takenMs[2]! - fromMs).toBeLessThanOrEqual(60_000);
  isMended = true;
  await receiver.until(() => receiver.delivered.length === 5);
  expect(connectorsOf(receiver)).toEqual(["a", "b", "c", "broken", "broken"]);
  expect(JSON.parse(receiver.delivered[4]!.body).text).toBe("the next one");
  expect(logged("an alert is lost")).toEqual([]);
  await sender[Symbol.asyncDispose]();
});

test("an alert that the receiver never takes is lost after a day, whatever came meanwhile", async () => {
  const { receiver, clock, sender } = await failingOn((body) => body.includes("broken"));
  sender.send(alert("broken"));
  for (let hour = 1; hour <= 25; hour++) {
    await waitFor("the hour to pass", () => clock.ms > hour * 3_600_000 || logged("lost").length > 0);
    sender.send(alert(`c${hour}`));
    await receiver.until(() => receiver.delivered.length === hour);
  }
  expect(logged("an alert is lost").map((line) => JSON.parse(line).connector)).toEqual(["broken"]);
  expect(clock.ms).toBeWithin(24 * 3_600_000 - 60_000, 24 * 3_600_000 + 60_000);
  await sender[Symbol.asyncDispose]();
});

test("a hanging receiver holds neither the one who reports nor the stop", async () => {
  await using receiver = await WebhookReceiver.start({ script: () => ({ kind: "hang" }) });
  const sender = senderTo(receiver);
  const from = usedMs();
  // More than may wait: the oldest are dropped, and memory is bounded.
  for (let index = 0; index < 3_000; index++) sender.send(alert(`c${index}`));
  expect(usedMs() - from).toBeLessThan(2_000);
  expect(logged("too many alerts wait")).toHaveLength(2_000);
  await receiver.until(() => receiver.requests.length === 1);
  const stopping = performance.now();
  await sender[Symbol.asyncDispose]();
  expect(performance.now() - stopping).toBeLessThan(2_500);
  expect(logged("did not get through are lost")).toHaveLength(1);
});

test("the stop waits for what is on its way, and not for a receiver that is away", async () => {
  const script: ReceiverScript = () => ({ kind: "answer", status: 200, delayMs: 200 });
  await using slow = await WebhookReceiver.start({ script });
  const sender = senderTo(slow);
  for (const name of ["a", "b"]) sender.send(alert(name));
  await sender[Symbol.asyncDispose]();
  expect(connectorsOf(slow)).toEqual(["a", "b"]);
  await using unwell = await WebhookReceiver.start({ script: () => 503 });
  const other = senderTo(unwell, 60_000);
  other.send(alert("c"));
  await waitFor("the failure", () => logged("do not get through").length === 1);
  const from = performance.now();
  await other[Symbol.asyncDispose]();
  expect(performance.now() - from).toBeLessThan(500);
});

test("a sink that flaps for an hour is one alert of a kind in 15 minutes at the receiver", async () => {
  await using receiver = await WebhookReceiver.start();
  await using sender = senderTo(receiver);
  let nowMs = Date.parse("2026-01-02T03:04:05.678Z");
  const watch = new AlertWatch(
    (due) => sender.send(due),
    () => nowMs,
  );
  const state = { realtime: { name: "s" } };
  const report = (status: object, seconds: number) => {
    watch.reported("orders", { state, status });
    for (let second = 0; second < seconds; second += 5, nowMs += 5_000) watch.tick();
  };
  for (let round = 0; round < 60; round++) {
    report({ failed: { reason: "The sink is away." } }, 30);
    report({ heartbeat: {} }, 30);
  }
  await receiver.until(() => receiver.delivered.length === 8);
  await sender[Symbol.asyncDispose]();
  const types = receiver.delivered.map(({ body }) => JSON.parse(body).type);
  expect(types.filter((type) => type === "connector.failed")).toHaveLength(4);
  expect(types.filter((type) => type === "connector.recovered")).toHaveLength(4);
  expect(new Set(idsOf(receiver)).size).toBe(8);
});

test("alerts go where webhooks may go", async () => {
  await using receiver = await WebhookReceiver.start();
  const settings = { url: receiver.url, secret: null };
  await using alerts = startAlerts(settings, { MILLRACE_WEBHOOK_EGRESS: "public" }, log);
  const failed = { state: { realtime: { name: "s" } }, status: { failed: { reason: "It is over." } } };
  alerts.watch.reported("orders", failed);
  await waitFor("the refusal", () => logged("an alert is lost").length === 1);
  expect(logged("is not public")).toHaveLength(1);
  expect(receiver.requests).toEqual([]);
});
