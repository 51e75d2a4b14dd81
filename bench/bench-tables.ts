// The tables of the loads, and the SQL that fills them.

const wideColumns = 40;

export const tables = `
  create table bench (
    id bigint primary key, number int, label text, at timestamptz, amount numeric, token uuid, flag bool
  );
  create table bench_hot (id bigint primary key, number int, label text, at timestamptz);
  create table bench_wide (id bigint primary key, ${wide((i) => `c${i} ${i % 2 ? "int" : "text"}`)});
  create table bench_large (id bigint primary key, content text);
  create table pgbench_branches (bid int primary key, bbalance int, filler char(88)) with (fillfactor = 100);
  create table pgbench_tellers (tid int primary key, bid int, tbalance int, filler char(84)) with (fillfactor = 100);
  create table pgbench_accounts (aid int primary key, bid int, abalance int, filler char(84)) with (fillfactor = 100);
  create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
  create table bench_latency (id bigint primary key, at timestamptz);
  create table bench_marker (id bigint primary key)`;

/** Tables that copy benchmarks drop, because contenders that copy the whole database would copy them too. */
export const streamTables = [...tables.matchAll(/create table (\w+)/g)]
  .map(([, name]) => name)
  .filter((name) => name !== "bench");

const values = `i, i % 1000, md5(i::text), timestamptz '2025-01-01' + i * interval '1 ms', i / 7.0,
  md5(i::text)::uuid, i % 2 = 0`;

export function insertRange(from: string, to: string): string {
  return `insert into bench select ${values} from generate_series(${from}, ${to}) i`;
}

export function fillHot(keys: number): string {
  return `insert into bench_hot select i, 0, md5(i::text), now() from generate_series(1, ${keys}) i`;
}

export function fillWide(rows: number): string {
  const columns = wide((i) => (i % 2 ? `i % ${i * 100}` : "'value ' || i % 1000"));
  return `insert into bench_wide select i, ${columns} from generate_series(1, ${rows}) i`;
}

/**
 * Each row has an incompressible value of 4,000 bytes. There are only 1,000 different values, because generating them
 * takes time.
 */
export function fillLarge(rows: number): string {
  return `
    with pool as materialized (
      select j, (select string_agg(md5(j::text || k), '') from generate_series(1, 125) k) as content
      from generate_series(0, 999) j
    )
    insert into bench_large select i, content from generate_series(1, ${rows}) i join pool on j = i % 1000`;
}

/** As `pgbench -i -s`: https://www.postgresql.org/docs/current/pgbench.html */
export function fillTpcB(scale: number): string {
  return `
    insert into pgbench_branches select i, 0 from generate_series(1, ${scale}) i;
    insert into pgbench_tellers select i, (i - 1) / 10 + 1, 0 from generate_series(1, ${scale * 10}) i;
    insert into pgbench_accounts select i, (i - 1) / 100000 + 1, 0, '' from generate_series(1, ${scale * 100_000}) i`;
}

/** The writing statements of pgbench's "TPC-B (sort of)" transaction, in the same order. */
export function tpcB(scale: number): string {
  return `
    aid := 1 + floor(random() * ${scale * 100_000});
    bid := 1 + floor(random() * ${scale});
    tid := 1 + floor(random() * ${scale * 10});
    delta := floor(random() * 10001) - 5000;
    update pgbench_accounts a set abalance = abalance + delta where a.aid = tpcb.aid;
    update pgbench_tellers t set tbalance = tbalance + delta where t.tid = tpcb.tid;
    update pgbench_branches b set bbalance = bbalance + delta where b.bid = tpcb.bid;
    insert into pgbench_history values (tid, bid, aid, delta, current_timestamp)`;
}

function wide(column: (i: number) => string): string {
  return Array.from({ length: wideColumns - 1 }, (_, i) => column(i + 1)).join(", ");
}
