// Webhooks under each of their loads, to a receiver in a process of its own: a backlog in requests of many rows, in requests of one, and
// how late a commit arrives. Beside them the stream alone, without a sink, and a bare loop of requests.

import type { JsonBody } from "../src/demo/api-client.ts";
import { type BenchServers, database } from "./bench-servers.ts";
import { DiscardingContender } from "./discarding-contender.ts";
import { percentile } from "./latency.ts";
import { type Load, thousandInsertsEach } from "./loads.ts";
import { measureLoad } from "./measure.ts";
import { MillraceService } from "./millrace-service.ts";
import { median } from "./report.ts";
import { type WebhookOptions, webhookTarget } from "./targets.ts";

interface WebhooksRequest {
  readonly rows: number;
  readonly rounds: number;
  readonly isWanted: (name: string) => boolean;
  /** How to run the service. */
  readonly command: readonly string[];
}

interface WebhookCase {
  readonly name: string;
  readonly rows: number;
  readonly options: WebhookOptions;
  /** Rows a second that are wanted. */
  readonly wanted?: number;
  /** What it is measured beside, and the part of its rate that is wanted. */
  readonly beside?: { readonly peer: "stream" | "fetch loop"; readonly wanted: number };
}

export interface WebhookResult {
  readonly name: string;
  readonly text: string;
  readonly figures: Readonly<Record<string, number>>;
}

const inFlight = 32;
const latencyPerSecond = 1000;
const one = { batch: { max_batch_size: 1 } };

function cases(rows: number): readonly WebhookCase[] {
  const some = Math.max(1000, Math.floor(rows / 2));
  const compressed = (compression: string, wanted: number): WebhookCase => ({
    ...{ name: `webhooks: native, ${compression}`, rows, options: { sink: { compression } }, wanted },
  });
  return [
    {
      ...{ name: "webhooks: native, None", rows, options: {}, wanted: 100_000 },
      beside: { peer: "stream", wanted: 0.7 },
    },
    compressed("Gzip", 60_000),
    compressed("Zstd", 90_000),
    compressed("Br", 40_000),
    { name: "webhooks: Debezium", rows, options: { sink: { format: { debezium: {} } } }, wanted: 60_000 },
    {
      ...{ name: "webhooks: one row each", rows: some, options: { sink: one } },
      beside: { peer: "fetch loop", wanted: 0.6 },
    },
    {
      ...{ name: "webhooks: one row each, 50 ms", rows: Math.min(some, 12_000), wanted: 600 },
      options: { sink: one, delayMs: 50 },
    },
  ];
}

/** Measures what is wanted, and prints each result. */
export async function measureWebhooks(
  servers: BenchServers,
  request: WebhooksRequest,
): Promise<readonly WebhookResult[]> {
  const results: WebhookResult[] = [];
  const tell = (result: WebhookResult) => {
    results.push(result);
    console.log(`${result.name.padEnd(32)} ${result.text}`);
  };
  for (const each of cases(request.rows).filter(({ name }) => request.isWanted(name)))
    tell(await measureCase(servers, each, request));
  const latencies = {
    "webhooks: latency": undefined,
    "webhooks: latency, flush after 5 ms": { cdc: { flush_interval_ms: 5 } },
    "webhooks: latency, one row each": undefined,
  };
  for (const [name, limits] of Object.entries(latencies)) {
    if (!request.isWanted(name)) continue;
    const sink: JsonBody = name.endsWith("each") ? one : {};
    tell(await measureWaits(servers, name, { sink, ...(limits ? { limits } : {}) }, request.command));
  }
  return results;
}

async function measureCase(
  servers: BenchServers,
  { name, rows, options, wanted, beside }: WebhookCase,
  { rounds, command }: WebhooksRequest,
): Promise<WebhookResult> {
  const load: Load = thousandInsertsEach(Math.max(1, Math.round(rows / 1000)));
  const rates: number[] = [];
  const peerRates: number[] = [];
  const cpuSeconds: number[] = [];
  let peakBytes = 0;
  let bytesPerRow = 0;
  for (let round = 0; round < rounds; round++) {
    await using target = await webhookTarget(options);
    // It is asked for what it has received when the service is gone.
    const lent = { ...target, [Symbol.asyncDispose]: async () => {} };
    const start = () => MillraceService.start(servers, lent, command);
    const { count, seconds, service } = await measureLoad(servers, start, load);
    rates.push(count / seconds);
    cpuSeconds.push(((service?.cpuSeconds ?? 0) * 1e6) / count);
    peakBytes = Math.max(peakBytes, service?.peakBytes ?? 0);
    bytesPerRow = (await target.received()).wireBytes / count;
    if (beside?.peer === "fetch loop") peerRates.push(await fetchLoop(target.url, count));
    if (beside?.peer !== "stream") continue;
    const stream = await measureLoad(servers, async () => new DiscardingContender(servers), load);
    peerRates.push(stream.count / stream.seconds);
  }
  const rate = median(rates);
  const ratio = beside ? rate / median(peerRates) : null;
  const text = [
    `${Math.round(rate).toLocaleString("en-US")} rows/s${wanted ? ` (${wanted.toLocaleString("en-US")})` : ""}`,
    ...(beside ? [`${ratio?.toFixed(2)} of a ${beside.peer} (${beside.wanted})`] : []),
    `${Math.round(bytesPerRow)} bytes a row on the wire`,
    `${median(cpuSeconds).toFixed(1)} CPU s a million rows`,
    `peak ${Math.round(peakBytes / 2 ** 20)} MB (256)`,
  ];
  const figures = { rate, bytesPerRow, cpuSecondsPerMillion: median(cpuSeconds), peakBytes };
  return { name, text: text.join(", "), figures: { ...figures, ...(ratio === null ? {} : { ratio }) } };
}

async function fetchLoop(url: string, count: number): Promise<number> {
  const row = JSON.stringify({
    ...{ id: 1, number: 1, label: "c4ca4238a0b923820dcc509a6f75849b", at: "2025-01-01T00:00:00.001Z" },
    ...{ amount: "0.14285714285714285714", token: "c4ca4238-a0b9-2382-0dcc-509a6f75849b", flag: false },
    ...{ _sm_version: 1_700_000_000_000_001, _sm_deleted: false },
  });
  const program = `${import.meta.dirname}/fetch-loop.ts`;
  const child = Bun.spawn([process.execPath, program, url, String(inFlight), String(count), row], {
    stdout: "pipe",
  });
  return Number(await new Response(child.stdout).text());
}

/** Under a steady load, from before the commit at the source to the receiver's having read the row; by one machine's clock. */
async function measureWaits(
  servers: BenchServers,
  name: string,
  options: WebhookOptions,
  command: readonly string[],
): Promise<WebhookResult> {
  const target = await webhookTarget(options);
  await using service = await MillraceService.start(servers, target, command);
  await servers.renew();
  await service.begin();
  const write = (seconds: number, first: number) =>
    servers.source.query(
      `do $$ declare began timestamptz := clock_timestamp(); begin
         for n in 0..${latencyPerSecond * seconds - 1} loop
           perform pg_sleep(n / ${latencyPerSecond}.0 - extract(epoch from clock_timestamp() - began));
           insert into bench_latency values (${first} + n, clock_timestamp()); commit;
         end loop; end $$`,
      database,
    );
  // What is slow once, at the beginning, is no part of a steady load.
  await write(1, 0);
  await service.untilMarked(await servers.mark());
  await target.received();
  await write(10, latencyPerSecond);
  await service.untilMarked(await servers.mark());
  await Bun.sleep(500);
  const waits = [...(await target.received()).waitsMs].sort((a, b) => a - b);
  await service.end();
  const [p50, p99] = [percentile(waits, 0.5), percentile(waits, 0.99)];
  const text = `p50 ${p50} ms (20), p99 ${p99} ms (60), ${waits.length} rows at ${latencyPerSecond} a second`;
  return { name, text, figures: { p50Ms: p50, p99Ms: p99 } };
}
