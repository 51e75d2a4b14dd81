// Measures how long a commit takes to become visible at the sink under a steady load. Both timestamps come from the
// clock of the machine that runs both servers: before the commit at the source, and after the query at the sink.

import { type BenchServers, database } from "../bench-servers.ts";
import type { Contender, ContenderName } from "../contenders/contender.ts";

export interface Latency {
  readonly contender: ContenderName;
  readonly transactionsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Sampling adds at most this to a latency. */
const sampleIntervalMs = 0.5;

interface Sample {
  readonly last: number;
  readonly atMs: number;
}

export async function measureLatency(
  servers: BenchServers,
  contender: Contender,
  perSecond: number,
  seconds: number,
): Promise<Latency> {
  await servers.recreate();
  await contender.begin();
  // Warm up: one-time costs are not part of a steady load.
  await writeSteadily(servers, perSecond, perSecond, 0);
  const count = perSecond * seconds;
  const [elapsedMs, samples] = await Promise.all([
    writeSteadily(servers, perSecond, count, perSecond),
    sampleSink(servers, perSecond, perSecond + count - 1),
  ]);
  const rows = await servers.source.query<{ ms: number }>(
    `select extract(epoch from at)::float8 * 1000 as ms from bench_latency where id >= ${perSecond} order by id`,
    database,
  );
  await contender.end();
  const latencies = rowLatencies(
    rows.map(({ ms }) => ms),
    samples,
    perSecond,
  ).sort((a, b) => a - b);
  return {
    contender: contender.name,
    transactionsPerSecond: (count / elapsedMs) * 1000,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
  };
}

/** Commits `count` rows at an even pace, each durably. Returns the elapsed time. */
export async function writeSteadily(
  servers: BenchServers,
  perSecond: number,
  count: number,
  first: number,
): Promise<number> {
  await using client = await servers.source.connect(database);
  const startedMs = performance.now();
  await client.query(`
    do $$
    declare began timestamptz := clock_timestamp();
    begin
      for n in 0..${count - 1} loop
        perform pg_sleep(n / ${perSecond}.0 - extract(epoch from clock_timestamp() - began));
        insert into bench_latency values (${first} + n, clock_timestamp());
        commit;
      end loop;
    end $$`);
  return performance.now() - startedMs;
}

/** Polls the sink until it has seen the last of these rows. */
async function sampleSink(servers: BenchServers, first: number, last: number): Promise<readonly Sample[]> {
  await using client = await servers.sink.connect(database);
  const samples: Sample[] = [];
  const deadline = performance.now() + 600_000;
  for (let seen = first - 1; seen < last; ) {
    if (performance.now() > deadline) throw new Error("the load of the latency did not arrive");
    const { rows } = await client.query<{ last: string; ms: number }>({
      name: "sample",
      text: "select max(id) as last, extract(epoch from clock_timestamp())::float8 * 1000 as ms from bench_latency",
    });
    const found = Number(rows[0]?.last ?? 0);
    if (found > seen) samples.push({ last: found, atMs: rows[0]?.ms ?? 0 });
    seen = Math.max(seen, found);
    await Bun.sleep(sampleIntervalMs);
  }
  return samples;
}

/** A row's latency ends at the first sample that saw it or a later row. */
export function rowLatencies(
  committedMs: readonly number[],
  samples: readonly Sample[],
  first: number,
): number[] {
  let next = 0;
  return committedMs.map((ms, i) => {
    while ((samples[next]?.last ?? Number.POSITIVE_INFINITY) < first + i) next++;
    return (samples[next]?.atMs ?? Number.NaN) - ms;
  });
}

export function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
