// The SQL by which a server digests its rows, the same at source and sink but for names. All of it is hashed by the types' own hash functions, whose
// results are the same in every version: partitioning by hash relies on them. Pure.

import type { PageRange } from "../change/page-range.ts";
import type { HashedForm } from "./hashed-form.ts";
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
/** Groups of 8: larger ones make first scans no faster, and leave more rows to second ones where single rows differ. */
const neighbourBits = 3;

/** A value of each type that is not hashed by its text, and two texts. */
const probed = [
  "true, '\\xff00'::bytea, 'millrace'::text collate \"C\", 'millrace'::varchar collate \"C\", 'infinity'::date, 7::oid, (-7)::int2, (-7)::int4",
  "int8send(-7), time_send('10:00:00.000001'), timestamp_send('-infinity'), timestamptz_send('2000-01-01 00:00:00.000001+00')",
  "numeric_send(-1.50), '00112233-4455-6677-8899-aabbccddeeff'::uuid, null::int4",
].join(", ");

export const serverQuery = `
select current_setting('server_encoding') = 'UTF8' as "isUtf8",
  ${mixed(`hash_record_extended(row(${probed}), ${seed.key})`)}::text as probe`;

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

/** OFFSET keeps the server from making the record once for each hash. */
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
    `select b, ${rowHashes("r")} from (select ${keyBucket(comparison, table, buckets)} as b, ` +
    `${rowRecord(comparison, table)} as r from ${table.from}${where} offset 0) records` +
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
  const isAmong = among(keyBucket(comparison, table, buckets));
  const inSample = sampled(comparison, table);
  const keys = keyColumns(comparison).map((column, i) => `${keyText(column, table)} as k${i}`);
  const names = comparison.key.map((_, i) => `k${i}`);
  return (
    `select ${rowHashes("r")}, ${names.join(", ")} from (select ${rowRecord(comparison, table)} as r, ${keys.join(", ")} ` +
    `from ${table.from} where ${isAmong}${inSample === null ? "" : ` and ${inSample}`} offset 0) records`
  );
}

function keylessRowsSql(
  comparison: RowComparison,
  { buckets }: DigestScan & { kind: "rows" },
  table: DigestedTable,
): string {
  const isAmong = among(bucketOf("h0", buckets));
  return `select h0, h1 from (${keylessHashes(comparison, table)}) hashes where ${isAmong}`;
}

function textsSql(comparison: RowComparison, table: DigestedTable): string {
  const columns = [...keyColumns(comparison), ...comparison.columns].map(table.value);
  return `select ${columns.map(textOrNull).join(", ")} from ${table.from} where ${table.hasWantedKey}`;
}

/** The second OFFSET keeps the server from hashing once for each half and the bucket. */
function keylessHashes(comparison: RowComparison, table: DigestedTable): string {
  const distinct = comparison.areEqualRowsOne ? " group by 1, 2" : "";
  return `select ${rowHashes("r")} from (select ${rowRecord(comparison, table)} as r from ${table.from} offset 0) records${distinct} offset 0`;
}

/** Texts go in as one text of a record, which tells NULL from an empty text, and quotes what could be taken for the end of a value. */
function rowRecord({ columns, isEncoded }: RowComparison, { value }: DigestedTable): string {
  const formed = columns.flatMap((column) =>
    column.form === null ? [] : [inForm(column.form, value(column), isEncoded)],
  );
  const printed = columns.flatMap((column) => (column.form === null ? [value(column)] : []));
  const text = `row(${printed.join(", ")})::text`;
  const all = printed.length === 0 ? formed : [...formed, inForm({ kind: "characters" }, text, isEncoded)];
  return `row(${all.join(", ")})`;
}

function inForm(form: NonNullable<HashedForm>, value: string, isEncoded: boolean): string {
  switch (form.kind) {
    case "value":
      return value;
    case "characters":
      return isEncoded ? `convert_to(${value}, 'UTF8')` : `(${value}) collate "C"`;
    case "sent":
      return `${form.by}(${value})`;
    default:
      return form satisfies never;
  }
}

function keyColumns({ key, columns }: RowComparison): readonly ComparedColumn[] {
  return key.map((number) => columns.find((column) => column.number === number)!);
}

/**
 * Null for null, which a table at the sink may allow. Its type's output function prints an integer in a fraction of the time, and somebody may have
 * made a cast of their own.
 */
function keyText(column: ComparedColumn, { value }: DigestedTable): string {
  return column.form?.isInteger ? `textin(int8out(${value(column)}))` : textOrNull(value(column));
}

/** As the stream has the value, which a cast to text is not always. */
function textOrNull(value: string): string {
  return `case when num_nulls(${value}) = 0 then format('%s', ${value}) end`;
}

function rowHashes(record: string): string {
  return seed.row
    .map((each, i) => `${mixed(`hash_record_extended(${record}, ${each})`)} as h${i}`)
    .join(", ");
}

/**
 * A record's hash is a sum of its values' hashes: in an exclusive or of such sums, two rows that have swapped a value may cancel out. The hash of
 * a number mixes all of its seed, but only an exclusive or of the number's halves.
 */
function mixed(hash: string): string {
  return `hashint4extended(0, ${hash})`;
}

function keyHash(comparison: RowComparison, table: DigestedTable): string {
  const columns = keyColumns(comparison);
  return `hash_record_extended(${rowRecord({ ...comparison, columns }, table)}, ${seed.key})`;
}

/**
 * Neighbours by a key of one integer share a bucket. They are read one after the other mostly, so that what the server keeps of the bucket is in a
 * processor's cache. The lower bits of a group's number choose its bucket: groups in a row are in different ones, and few rows are read again where
 * one differs. A hash of the higher bits moves them, as keys may be two numbers in one (a tenant and a row), or leave out most numbers. A sink's key
 * may be NULL.
 */
function keyBucket(comparison: RowComparison, table: DigestedTable, buckets: number): string {
  const [column, another] = keyColumns(comparison);
  if (!column?.form?.isInteger || another !== undefined) return bucketOf(keyHash(comparison, table), buckets);
  const value = table.value(column);
  const group = `(${value} >> ${neighbourBits})`;
  const higher = `${value} >> ${neighbourBits + Math.log2(buckets)}`;
  return bucketOf(`coalesce(${group} # ${mixed(higher)}, 0)`, buckets);
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

/** https://www.postgresql.org/docs/current/ddl-system-columns.html#DDL-SYSTEM-COLUMNS-CTID */
export function within({ from, to }: PageRange): string {
  return `ctid >= '(${from},0)'::tid${to === null ? "" : ` and ctid < '(${to},0)'::tid`}`;
}

/** Other bits of the hash than those that choose the bucket. */
function sampled(comparison: RowComparison, table: DigestedTable): string | null {
  const { sample } = comparison;
  if (sample === null) return null;
  return `((${keyHash(comparison, table)} >> 40) & 1023) < ${sample}`;
}
