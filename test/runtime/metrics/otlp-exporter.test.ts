// The push of metrics, to a real HTTP server as the collector.

import { expect, test } from "bun:test";
import { createLog } from "../../../src/log.ts";
import type { PromMetric } from "../../../src/runtime/metrics/otlp-encoding.ts";
import { OtlpExporter, type OtlpExporterTools } from "../../../src/runtime/metrics/otlp-exporter.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type ReceiverScript, WebhookReceiver } from "../../support/webhook/webhook-receiver.ts";

const planted = "planted-key";

function rig(
  url: string,
  options: { timeoutMs?: number; intervalMs?: number } & Partial<OtlpExporterTools> = {},
) {
  const { timeoutMs = 300, intervalMs = 60_000, ...tools } = options;
  const lines: string[] = [];
  const log = createLog({ level: "debug", readable: false, write: (line) => lines.push(line) });
  const values = [{ value: 1, labels: { connector: "orders" } }];
  const collect = async (): Promise<PromMetric[]> => [{ name: "g", help: "", type: "gauge", values }];
  const resource = { "service.name": "mine" };
  const settings = {
    url: `${url}/v1/metrics?${planted}`,
    headers: { "api-key": planted },
    intervalMs,
    resource,
  };
  const exporter = new OtlpExporter(
    settings,
    { collect, version: "1.2.3", log, nowMs: Date.now, startMs: 0, instanceId: "me", ...tools },
    timeoutMs,
  );
  const told = (text: string) => lines.filter((line) => line.includes(text)).length;
  return { exporter, lines, told };
}

const warning = "do not get through";

test("metrics arrive with their headers, again and again", async () => {
  await using collector = await WebhookReceiver.start();
  const { exporter, lines } = rig(collector.url, { intervalMs: 20 });
  exporter.start();
  await collector.until(() => collector.requests.length >= 3);
  exporter[Symbol.dispose]();
  const [request] = collector.requests;
  expect(request).toMatchObject({ method: "POST", path: `/v1/metrics?${planted}` });
  expect(request?.headers).toMatchObject({ "content-type": "application/json", "api-key": planted });
  const [{ resource, scopeMetrics }] = JSON.parse(request?.body ?? "").resourceMetrics;
  const attributes = resource.attributes.map(({ key, value }: { key: string; value: object }) => [
    key,
    value,
  ]);
  expect(Object.fromEntries(attributes)).toEqual({
    "service.name": { stringValue: "mine" },
    "service.version": { stringValue: "1.2.3" },
    "service.instance.id": { stringValue: "me" },
  });
  expect(scopeMetrics[0].metrics[0].name).toBe("g");
  const count = collector.requests.length;
  await Bun.sleep(100);
  expect(collector.requests.length).toBeLessThanOrEqual(count + 1);
  expect(lines).toEqual([]);
});

test("a collector that is away is one warning until it works again", async () => {
  const away = await WebhookReceiver.start();
  const { port } = away;
  await away[Symbol.asyncDispose]();
  const { exporter, lines, told } = rig(`http://127.0.0.1:${port}`);
  for (let round = 0; round < 5; round++) await exporter.push();
  expect(told(warning)).toBe(1);
  let status = 503;
  await using collector = await WebhookReceiver.start({ port, script: () => status });
  for (let round = 0; round < 3; round++) await exporter.push();
  expect([told(warning), told("again")]).toEqual([1, 0]);
  status = 200;
  for (let round = 0; round < 3; round++) await exporter.push();
  expect([told(warning), told("again")]).toEqual([1, 1]);
  // Nothing of what failed was kept.
  expect(collector.requests).toHaveLength(6);
  status = 500;
  await exporter.push();
  expect(told(warning)).toBe(2);
  expect(lines.join("")).not.toContain(planted);
});

test("a collector that hangs gets one request at a time, and each ends in time", async () => {
  await using collector = await WebhookReceiver.start({ script: () => ({ kind: "hang" }) });
  let collections = 0;
  const collect = async (): Promise<PromMetric[]> => {
    collections++;
    return [];
  };
  const { exporter, lines, told } = rig(collector.url, { intervalMs: 5, timeoutMs: 200, collect });
  exporter.start();
  await collector.until(() => collector.requests.length >= 3);
  const { maxInFlight } = collector;
  exporter[Symbol.dispose]();
  expect(maxInFlight).toBe(1);
  expect(collections).toBeLessThanOrEqual(4);
  expect(told(warning)).toBe(1);
  expect(JSON.parse(lines[0] ?? "").reason).toBe("TimeoutError");
});

test("the stop ends a push that hangs, and is no failure of the collector", async () => {
  await using collector = await WebhookReceiver.start({ script: () => ({ kind: "hang" }) });
  const { exporter, lines } = rig(collector.url, { timeoutMs: 60_000 });
  const pushing = exporter.push();
  await collector.until(() => collector.requests.length === 1);
  exporter[Symbol.dispose]();
  await pushing;
  await waitFor("the end of the request", () => collector.inFlight === 0);
  expect(lines).toEqual([]);
});

test("an answer that leads elsewhere is not followed: the headers go to the collector alone", async () => {
  await using elsewhere = await WebhookReceiver.start();
  const script: ReceiverScript = () => ({
    kind: "answer",
    status: 307,
    headers: { location: elsewhere.url },
  });
  await using collector = await WebhookReceiver.start({ script });
  const { exporter, told } = rig(collector.url);
  await exporter.push();
  expect([told(warning), elsewhere.requests.length]).toEqual([1, 0]);
});

test.each([
  ["as JSON has 64-bit numbers", "3"],
  ["as a number", 3],
])(
  "points that the collector rejects are one warning until it takes all again: %s",
  async (_, rejectedDataPoints) => {
    const partialSuccess = { rejectedDataPoints, errorMessage: `No series for ${planted}.` };
    let body = JSON.stringify({ partialSuccess });
    await using collector = await WebhookReceiver.start({
      script: () => ({ kind: "answer", status: 200, body }),
    });
    const { exporter, lines, told } = rig(collector.url);
    for (let round = 0; round < 3; round++) await exporter.push();
    expect(told(warning)).toBe(1);
    expect(JSON.parse(lines[0] ?? "").reason).toBe("the collector rejected 3 data points");
    body = "{}";
    await exporter.push();
    expect([told(warning), told("again")]).toEqual([1, 1]);
    // What others wrote is not for the log.
    expect(lines.join("")).not.toContain(planted);
  },
);

test.each([
  ["nothing", ""],
  ["what is no JSON", "thank you"],
  ["null", "null"],
  ["a list", "[]"],
  ["a success that is whole", '{"partialSuccess":{}}'],
  ["a word of advice", '{"partialSuccess":{"rejectedDataPoints":"0","errorMessage":"Send less."}}'],
  ["a count that is none", '{"partialSuccess":{"rejectedDataPoints":"many"}}'],
])("a collector that answers %s has taken all", async (_, body) => {
  await using collector = await WebhookReceiver.start({
    script: () => ({ kind: "answer", status: 200, body }),
  });
  const { exporter, lines } = rig(collector.url);
  await exporter.push();
  expect([collector.requests.length, lines]).toEqual([1, []]);
});

test.each([
  ["that never ends", " ".repeat(1_000), 60_000],
  ["that never comes", null, 200],
])("an answer %s holds nothing up, and the metrics count as delivered", async (_, chunk, timeoutMs) => {
  await using collector = await WebhookReceiver.start({
    script: () => ({ kind: "endless", status: 200, chunk }),
  });
  const { exporter, lines } = rig(collector.url, { timeoutMs });
  await exporter.push();
  await waitFor("the end of the request", () => collector.inFlight === 0);
  expect(lines).toEqual([]);
});

test("a failure to collect is told like one to send, and the next push is made", async () => {
  await using collector = await WebhookReceiver.start();
  let isBroken = true;
  const collect = async (): Promise<PromMetric[]> => {
    if (isBroken) throw new Error("the state is away");
    return [];
  };
  const { exporter, told } = rig(collector.url, { collect });
  await exporter.push();
  expect([told(warning), collector.requests.length]).toEqual([1, 0]);
  isBroken = false;
  await exporter.push();
  expect(collector.requests).toHaveLength(1);
});
