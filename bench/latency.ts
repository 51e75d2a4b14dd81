// How long a commit takes to be seen at the sink, under a steady load. Both ends are taken by the clock of the one machine that
// both servers run on: before the commit at the source, after the look at the sink.

import { type BenchServers, database } from "./bench-servers.ts";
import type { Contender, ContenderName } from "./contender.ts";

export interface Latency {
  readonly contender: ContenderName;
  readonly transactionsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** What is looked at too late is counted as later than it was, by this at most. */
const lookEveryMs = 0.5;

interface Look {
  readonly last: number;
  readonly atMs: number;
}

export async function measureLatency(
  servers: BenchServers,
  contender: Contender,
  perSecond: number,
  seconds: number,
): Promise<Latency> {
  await servers.renew();
  await contender.begin();
  // What is slow once, at the beginning, is no part of a steady load.
  await write(servers, perSecond, perSecond, 0);
  const count = perSecond * seconds;
  const [elapsedMs, looks] = await Promise.all([
    write(servers, perSecond, count, perSecond),
    look(servers, perSecond, perSecond + count - 1),
  ]);
  const rows = await servers.source.query<{ ms: number }>(
    `select extract(epoch from at)::float8 * 1000 as ms from bench_latency where id >= ${perSecond} order by id`,
    database,
  );
  await contender.end();
  const waits = waitsOf(
    rows.map(({ ms }) => ms),
    looks,
    perSecond,
  ).sort((a, b) => a - b);
  return {
    contender: contender.name,
    transactionsPerSecond: (count / elapsedMs) * 1000,
    p50Ms: percentile(waits, 0.5),
    p99Ms: percentile(waits, 0.99),
  };
}

/** Commits `count` rows at an even pace, each durable. Returns the time it took. */
async function write(
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

/** Looks at the sink again and again, from the first of these rows to the last. */
async function look(servers: BenchServers, first: number, last: number): Promise<readonly Look[]> {
  await using client = await servers.sink.connect(database);
  const looks: Look[] = [];
  const deadline = performance.now() + 600_000;
  for (let seen = first - 1; seen < last; ) {
    if (performance.now() > deadline) throw new Error("the load of the latency did not arrive");
    const { rows } = await client.query<{ last: string; ms: number }>({
      name: "look",
      text: "select max(id) as last, extract(epoch from clock_timestamp())::float8 * 1000 as ms from bench_latency",
    });
    const found = Number(rows[0]?.last ?? 0);
    if (found > seen) looks.push({ last: found, atMs: rows[0]?.ms ?? 0 });
    seen = Math.max(seen, found);
    await Bun.sleep(lookEveryMs);
  }
  return looks;
}

/** A row was seen by the first look that saw it, or one behind it. */
export function waitsOf(committedMs: readonly number[], looks: readonly Look[], first: number): number[] {
  let next = 0;
  return committedMs.map((ms, i) => {
    while ((looks[next]?.last ?? Number.POSITIVE_INFINITY) < first + i) next++;
    return (looks[next]?.atMs ?? Number.NaN) - ms;
  });
}

export function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
