// The SQL by which a server digests its rows, the same at source and sink but for names. All of it is hashed by `hashtextextended`, whose
// results are the same in every version: partitioning by hash relies on them. Pure.

import type { ComparedColumn, DigestScan, RowComparison } from "./row-comparison.ts";

/** A table as one of the servers has it. */
export interface DigestedTable {
  /** After FROM. */
  readonly from: string;
  /** The column's value as SQL. Its text is what is compared. */
  readonly value: (column: ComparedColumn) => string;
  /** The condition that a row has one of the keys in `keysSetting`. */
  readonly hasWantedKey: string;
}

/** Settings of the session, so that neither keys nor buckets are in a statement's text. */
export const keysSetting = "millrace.keys";
const bucketsSetting = "millrace.buckets";

/** Which of the hashes is what. */
const seed = { row: [1, 2], key: 3 } as const;

export const serverQuery = `
select current_setting('server_encoding') = 'UTF8' as "isUtf8", hashtextextended('millrace', ${seed.key})::text as probe`;

/** What a session must be set to before a scan. A large hash table in memory, and no sort. */
export const scanSettings =
  "set local work_mem = '64MB'; set local enable_sort = off; set local jit = off; set local max_parallel_workers_per_gather = 0";

/** Settings that carry a scan's values. */
export function scanValues(scan: DigestScan): readonly { readonly name: string; readonly value: string }[] {
  switch (scan.kind) {
    case "buckets":
      return [];
    case "rows":
      return [{ name: bucketsSetting, value: bitsOf(scan).toString("base64") }];
    case "texts":
      return [{ name: keysSetting, value: JSON.stringify(scan.keys) }];
    default:
      return scan satisfies never;
  }
}

/** A query whose rows `digest-rows.ts` reads from a COPY in binary form. */
export function digestSql(comparison: RowComparison, scan: DigestScan, table: DigestedTable): string {
  switch (scan.kind) {
    case "buckets":
      return isKeyed(comparison)
        ? keyedBucketsSql(comparison, scan, table)
        : keylessBucketsSql(comparison, scan, table);
    case "rows":
      return isKeyed(comparison)
        ? keyedRowsSql(comparison, scan, table)
        : keylessRowsSql(comparison, scan, table);
    case "texts":
      return textsSql(comparison, table);
    default:
      return scan satisfies never;
  }
}

export function isKeyed({ key }: Pick<RowComparison, "key">): boolean {
  return key.length > 0;
}

/** OFFSET keeps the server from computing the texts once for each hash. */
function keyedBucketsSql(
  comparison: RowComparison,
  { buckets, range }: DigestScan & { kind: "buckets" },
  table: DigestedTable,
): string {
  const conditions = [range && within(range), sampled(comparison, table)].filter(
    (condition) => condition !== null,
  );
  const where = conditions.length > 0 ? ` where ${conditions.join(" and ")}` : "";
  return (
    "select b, count(*), bit_xor(h0), bit_xor(h1) from (" +
    `select b, ${rowHashes("r")} from (select ${bucketOf(hash(keyText(comparison, table), seed.key), buckets)} as b, ` +
    `${rowText(comparison, table)} as r from ${table.from}${where} offset 0) texts` +
    ") digests group by b"
  );
}

/** Equal rows would cancel each other out in an exclusive or. So the four halves of their hashes are summed. */
function keylessBucketsSql(
  comparison: RowComparison,
  { buckets, range }: DigestScan & { kind: "buckets" },
  table: DigestedTable,
): string {
  const halves = ["h0", "h1"].flatMap((of) => [`(${of} >> 32)::int4`, `((${of} << 32) >> 32)::int4`]);
  const sums = halves.map((half) => `sum(${half})`).join(", ");
  const part = range === null ? table : { ...table, from: `${table.from} where ${within(range)}` };
  return (
    `select b, count(*), ${sums} from (select ${bucketOf("h0", buckets)} as b, h0, h1 from (` +
    `${keylessHashes(comparison, part)}) hashes) digests group by b`
  );
}

function keyedRowsSql(
  comparison: RowComparison,
  { buckets }: DigestScan & { kind: "rows" },
  table: DigestedTable,
): string {
  const isAmong = among(bucketOf(hash(keyText(comparison, table), seed.key), buckets));
  const inSample = sampled(comparison, table);
  const keys = keyColumns(comparison).map((column, i) => `${outputText(table.value(column))} as k${i}`);
  const names = comparison.key.map((_, i) => `k${i}`);
  return (
    `select ${rowHashes("r")}, ${names.join(", ")} from (select ${rowText(comparison, table)} as r, ${keys.join(", ")} ` +
    `from ${table.from} where ${isAmong}${inSample === null ? "" : ` and ${inSample}`} offset 0) texts`
  );
}

function keylessRowsSql(
  comparison: RowComparison,
  { buckets }: DigestScan & { kind: "rows" },
  table: DigestedTable,
): string {
  const isAmong = among(bucketOf("h0", buckets));
  return `select h0, h1 from (${keylessHashes(comparison, table)} offset 0) hashes where ${isAmong}`;
}

function textsSql(comparison: RowComparison, table: DigestedTable): string {
  const columns = [...keyColumns(comparison), ...comparison.columns].map(table.value);
  const texts = columns.map((value) => `case when num_nulls(${value}) = 0 then ${outputText(value)} end`);
  return `select ${texts.join(", ")} from ${table.from} where ${table.hasWantedKey}`;
}

function keylessHashes(comparison: RowComparison, { from, value, hasWantedKey }: DigestedTable): string {
  const text = rowText(comparison, { from, value, hasWantedKey });
  const distinct = comparison.areEqualRowsOne ? " group by 1, 2" : "";
  return `select ${rowHashes("r")} from (select ${text} as r from ${from} offset 0) texts${distinct}`;
}

/** `record_out` tells NULL from an empty text, and quotes what could be taken for the end of a value. */
function rowText({ columns, isEncoded }: RowComparison, { value }: DigestedTable): string {
  return hashable(`row(${columns.map(value).join(", ")})::text`, isEncoded);
}

function keyText(comparison: RowComparison, { value }: DigestedTable): string {
  const values = keyColumns(comparison).map(value).join(", ");
  return hashable(comparison.isKeyPlain ? `(${values})::text` : `row(${values})::text`, comparison.isEncoded);
}

function keyColumns({ key, columns }: RowComparison): readonly ComparedColumn[] {
  return key.map((number) => columns.find((column) => column.number === number)!);
}

function hashable(text: string, isEncoded: boolean): string {
  return `(${isEncoded ? `encode(convert_to(${text}, 'UTF8'), 'escape')` : text}) collate "C"`;
}

/** As the stream has the value, which a cast to text is not always. */
function outputText(value: string): string {
  return `format('%s', ${value})`;
}

function rowHashes(text: string): string {
  return seed.row.map((each, i) => `${hash(text, each)} as h${i}`).join(", ");
}

function hash(text: string, seeded: number): string {
  return `hashtextextended(${text}, ${seeded})`;
}

function bucketOf(hashed: string, buckets: number): string {
  return `(${hashed} & ${buckets - 1})::int4`;
}

/** Looks at one bit for each row. The subquery is evaluated once. */
function among(bucket: string): string {
  return `get_bit((select decode(current_setting('${bucketsSetting}'), 'base64')), ${bucket}) = 1`;
}

/** A bit for each bucket, in the order of `get_bit`. */
function bitsOf({ buckets, among: chosen }: DigestScan & { kind: "rows" }): Buffer {
  const bits = Buffer.alloc(Math.ceil(buckets / 8));
  for (const bucket of chosen) bits[bucket >> 3]! |= 1 << (bucket & 7);
  return bits;
}

function within({ from, to }: { readonly from: number; readonly to: number | null }): string {
  return `ctid >= '(${from},0)'::tid${to === null ? "" : ` and ctid < '(${to},0)'::tid`}`;
}

/** Other bits of the hash than those that choose the bucket. */
function sampled(comparison: RowComparison, table: DigestedTable): string | null {
  const { sample } = comparison;
  if (sample === null) return null;
  return `((${hash(keyText(comparison, table), seed.key)} >> 40) & 1023) < ${sample}`;
}
