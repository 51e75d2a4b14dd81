// The webhook benchmarks, with a receiver in a separate process: a backlog in batches, a backlog in single rows, and
// the latency of a commit. They compare with the stream without a sink, and with a plain loop of requests.

import type { JsonBody } from "../src/demo/api-client.ts";
import type { BenchServers } from "./bench-servers.ts";
import { DiscardingContender } from "./contenders/discarding-contender.ts";
import { MillraceService } from "./contenders/millrace-service.ts";
import { type WebhookOptions, type WebhookTarget, webhookTarget } from "./contenders/targets.ts";
import { type Load, thousandInsertsEach } from "./loads.ts";
import { percentile, writeSteadily } from "./measure/latency.ts";
import { measureLoad } from "./measure/measure.ts";
import { type Measurement, median } from "./measure/report.ts";

interface WebhooksRequest {
  readonly rows: number;
  readonly rounds: number;
  readonly isWanted: (name: string) => boolean;
  /** The command that runs the service. */
  readonly command: readonly string[];
}

interface Comparison {
  readonly peer: string;
  readonly goal: number;
  /** Of a peer that is the service with another receiver or other settings. */
  readonly options?: WebhookOptions;
}

interface WebhookCase {
  readonly name: string;
  readonly rows: number;
  readonly options: WebhookOptions;
  /** Rows per second. */
  readonly goal?: number;
  /** What the rate is compared with, and the ratio that is the goal. */
  readonly comparison?: Comparison;
}

export interface WebhookResult {
  readonly name: string;
  readonly text: string;
  readonly figures: Readonly<Record<string, number>>;
}

const inFlight = 32;
const latencyPerSecond = 1000;
const singleRow = { batch: { max_batch_size: 1 } };
const parking = { on_exhausted: { park: {} } };
const receipts = { receipts_hours: 24 };

function cases(rows: number): readonly WebhookCase[] {
  const fewerRows = Math.max(1000, Math.floor(rows / 2));
  const compressed = (compression: string, goal: number): WebhookCase => ({
    name: `webhooks: native, ${compression}`,
    rows,
    options: { sink: { compression } },
    goal,
  });
  return [
    {
      name: "webhooks: native, None",
      rows,
      options: {},
      goal: 100_000,
      comparison: { peer: "stream", goal: 0.7 },
    },
    compressed("Gzip", 60_000),
    compressed("Zstd", 90_000),
    compressed("Br", 40_000),
    {
      name: "webhooks: one bad row, parked",
      rows,
      options: { sink: parking, refusedText: `"id":${Math.ceil(rows / 2)},` },
      comparison: {
        peer: "load without it",
        goal: 0.95,
        options: { sink: parking, refusedText: '"id":-1,' },
      },
    },
    { name: "webhooks: Debezium", rows, options: { sink: { format: { debezium: {} } } }, goal: 60_000 },
    {
      name: "webhooks: one row each",
      rows: fewerRows,
      options: { sink: singleRow },
      comparison: { peer: "fetch loop", goal: 0.6 },
    },
    {
      name: "webhooks: receipts",
      rows,
      options: { limits: receipts },
      comparison: { peer: "run without receipts", goal: 0.95, options: {} },
    },
    {
      name: "webhooks: receipts, one row each",
      rows: fewerRows,
      options: { sink: singleRow, limits: receipts },
      comparison: { peer: "run without receipts", goal: 0.95, options: { sink: singleRow } },
    },
    {
      name: "webhooks: one row each, 50 ms",
      rows: Math.min(fewerRows, 12_000),
      goal: 600,
      options: { sink: singleRow, delayMs: 50 },
    },
  ];
}

/** Runs the requested cases, and prints each result. */
export async function measureWebhooks(
  servers: BenchServers,
  request: WebhooksRequest,
): Promise<readonly WebhookResult[]> {
  const results: WebhookResult[] = [];
  const record = (result: WebhookResult) => {
    results.push(result);
    console.log(`${result.name.padEnd(32)} ${result.text}`);
  };
  for (const each of cases(request.rows).filter(({ name }) => request.isWanted(name)))
    record(await measureCase(servers, each, request));
  const latencies = {
    "webhooks: latency": undefined,
    "webhooks: latency, flush after 5 ms": { cdc: { flush_interval_ms: 5 } },
    "webhooks: latency, one row each": undefined,
  };
  for (const [name, limits] of Object.entries(latencies)) {
    if (!request.isWanted(name)) continue;
    const sink: JsonBody = name.endsWith("each") ? singleRow : {};
    record(
      await measureWebhookLatency(servers, name, { sink, ...(limits ? { limits } : {}) }, request.command),
    );
  }
  return results;
}

async function measureCase(
  servers: BenchServers,
  { name, rows, options, goal, comparison }: WebhookCase,
  { rounds, command }: WebhooksRequest,
): Promise<WebhookResult> {
  const load: Load = thousandInsertsEach(Math.max(1, Math.round(rows / 1000)));
  const rates: number[] = [];
  const peerRates: number[] = [];
  const cpuSeconds: number[] = [];
  const peerCpuSeconds: number[] = [];
  let peakBytes = 0;
  let bytesPerRow = 0;
  let refused = 0;
  for (let round = 0; round < rounds; round++) {
    await using target = await webhookTarget(options);
    const measurePeer = async () => {
      if (!comparison?.options) return;
      await using peer = await webhookTarget(comparison.options);
      const measurement = await measureSink(servers, peer, load, command);
      peerRates.push(measurement.count / measurement.seconds);
      peerCpuSeconds.push(cpuSecondsPerMillion(measurement));
    };
    // Every other round begins with the peer.
    if (round % 2 === 1) await measurePeer();
    const measurement = await measureSink(servers, target, load, command);
    if (round % 2 === 0) await measurePeer();
    const { count, seconds, service } = measurement;
    rates.push(count / seconds);
    cpuSeconds.push(cpuSecondsPerMillion(measurement));
    peakBytes = Math.max(peakBytes, service?.peakBytes ?? 0);
    const received = await target.received();
    bytesPerRow = received.wireBytes / count;
    refused = received.refused;
    if (comparison?.peer === "fetch loop") peerRates.push(await fetchLoop(target.url, count));
    if (comparison?.peer !== "stream") continue;
    const stream = await measureLoad(servers, async () => new DiscardingContender(servers), load);
    peerRates.push(stream.count / stream.seconds);
  }
  const rate = median(rates);
  const ratio = comparison ? rate / median(peerRates) : null;
  const text = [
    `${Math.round(rate).toLocaleString("en-US")} rows/s${goal ? ` (${goal.toLocaleString("en-US")})` : ""}`,
    ...(options.refusedText ? [`${refused} requests refused`] : []),
    ...(comparison ? [`${ratio?.toFixed(2)} of a ${comparison.peer} (${comparison.goal})`] : []),
    `${Math.round(bytesPerRow)} bytes a row on the wire`,
    `${median(cpuSeconds).toFixed(1)} CPU s a million rows${peerCpuSeconds.length > 0 ? ` against ${median(peerCpuSeconds).toFixed(1)}` : ""}`,
    `peak ${Math.round(peakBytes / 2 ** 20)} MB (256)`,
  ];
  const figures = { rate, bytesPerRow, cpuSecondsPerMillion: median(cpuSeconds), peakBytes };
  return { name, text: text.join(", "), figures: { ...figures, ...(ratio === null ? {} : { ratio }) } };
}

/** The target outlives the service, because `received` is read after the service has stopped. */
function measureSink(
  servers: BenchServers,
  target: WebhookTarget,
  load: Load,
  command: readonly string[],
): Promise<Measurement> {
  const sharedTarget = { ...target, [Symbol.asyncDispose]: async () => {} };
  return measureLoad(servers, () => MillraceService.start(servers, sharedTarget, command), load);
}

function cpuSecondsPerMillion({ service, count }: Measurement): number {
  return ((service?.cpuSeconds ?? 0) * 1e6) / count;
}

async function fetchLoop(url: string, count: number): Promise<number> {
  const row = JSON.stringify({
    id: 1,
    number: 1,
    label: "c4ca4238a0b923820dcc509a6f75849b",
    at: "2025-01-01T00:00:00.001Z",
    amount: "0.14285714285714285714",
    token: "c4ca4238-a0b9-2382-0dcc-509a6f75849b",
    flag: false,
    _sm_version: 1_700_000_000_000_001,
    _sm_deleted: false,
  });
  const program = `${import.meta.dirname}/contenders/fetch-loop.ts`;
  const child = Bun.spawn([process.execPath, program, url, String(inFlight), String(count), row], {
    stdout: "pipe",
  });
  return Number(await new Response(child.stdout).text());
}

/**
 * The latency under a steady load: from before the commit at the source until the receiver has read the row, on the
 * same clock.
 */
async function measureWebhookLatency(
  servers: BenchServers,
  name: string,
  options: WebhookOptions,
  command: readonly string[],
): Promise<WebhookResult> {
  const target = await webhookTarget(options);
  await using service = await MillraceService.start(servers, target, command);
  await servers.recreate();
  await service.begin();
  const write = (seconds: number, first: number) =>
    writeSteadily(servers, latencyPerSecond, latencyPerSecond * seconds, first);
  // Warm up: one-time costs are not part of a steady load.
  await write(1, 0);
  await service.untilMarkerArrives(await servers.writeMarker());
  await target.received();
  await write(10, latencyPerSecond);
  await service.untilMarkerArrives(await servers.writeMarker());
  await Bun.sleep(500);
  const latencies = [...(await target.received()).latenciesMs].sort((a, b) => a - b);
  await service.end();
  const [p50, p99] = [percentile(latencies, 0.5), percentile(latencies, 0.99)];
  const text = `p50 ${p50} ms (20), p99 ${p99} ms (60), ${latencies.length} rows at ${latencyPerSecond} a second`;
  return { name, text, figures: { p50Ms: p50, p99Ms: p99 } };
}
