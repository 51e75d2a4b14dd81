// Reads digests of a table's rows at source and sink, both at once, and finds the rows that differ: first by buckets, then by rows of those buckets
// that differ.

import type { PageRange, TableSize } from "../../change/page-range.ts";
import {
  BucketDifferences,
  bucketsFor,
  type Expected,
  groupsOf,
  type Side,
} from "../../comparison/bucket-differences.ts";
import { type BinaryRow, readBinaryRows } from "../../comparison/digest-rows.ts";
import { isKeyed } from "../../comparison/digest-sql.ts";
import type { DigestScan } from "../../comparison/row-comparison.ts";
import { UnmatchedRows } from "../../comparison/unmatched-rows.ts";
import { concurrently } from "../../concurrency/concurrently.ts";
import { chunksUntilAborted, untilAborted } from "../../concurrency/until-aborted.ts";
import type { OpenedSides } from "./opened-sides.ts";
import { maxLagBytes, type VerifyEnvironment } from "./verify-environment.ts";

const lagCheckMs = 250;
/** A sink that is far behind is not waited for for ever. */
const longestPauseMs = 60_000;

/** Each part of a table answers with all buckets. So a part has several times as many rows as there are buckets. */
const rowsPerBucketAndPart = 8;
const rowsPerPage = 50;
const maxPartBytes = 1024 * 1024 * 1024;
const maxParts = 256;
/** Of both sides, in buckets that differ: so many are looked at in one scan. */
const maxRowsAtOnce = 4_000_000;
/** So many times too few buckets, and all is read again. Statistics that are only somewhat old are no reason to. */
const muchFewer = 16;
/** Keys may be long, and all rows may differ. What would take more is looked at in smaller groups. */
const maxBytesAtOnce = 192 * 1024 * 1024;

const sides = ["source", "sink"] as const satisfies readonly Side[];

/** Compares all rows by buckets. `progress`: rows of both sides that were read so far. */
export async function scanBuckets(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  expected: Expected,
  signal: AbortSignal,
  progress: (rows: number) => void,
): Promise<BucketDifferences> {
  const { table } = opened;
  const sizes = {
    source: await untilAborted(opened.source.size(table, signal), signal),
    sink: opened.sink.size,
  };
  const within = (rows: number) => scanWithin(environment, opened, sizes, rows, expected, signal, progress);
  const found = await within(table.estimatedRows || rowsIn(sizes.source));
  // After an upgrade there are no statistics, and a partitioned table has no size of its own.
  return isTooCoarse(found, expected) ? await within(rowsOf(found)) : found;
}

/** With so few buckets that rows would be read again in several scans. */
function isTooCoarse(found: BucketDifferences, expected: Expected): boolean {
  if (bucketsFor(rowsOf(found), expected) < found.buckets * muchFewer) return false;
  return found.differing().reduce((sum, bucket) => sum + found.rowsIn(bucket), 0) > maxRowsAtOnce;
}

function rowsOf(found: BucketDifferences): number {
  return Math.max(found.rows("source"), found.rows("sink"));
}

async function scanWithin(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  sizes: Readonly<Record<Side, TableSize | null>>,
  rows: number,
  expected: Expected,
  signal: AbortSignal,
  progress: (rows: number) => void,
): Promise<BucketDifferences> {
  const { comparison } = opened;
  const lanes = Math.min(environment.lanes, environment.parallel);
  const buckets = bucketsFor(rows, expected);
  const found = new BucketDifferences(buckets, !isKeyed(comparison));
  await atBoth(signal, async (side, either) => {
    const size = comparison.areEqualRowsOne ? null : sizes[side];
    const parts = partsOf(size, rows, buckets);
    const ranges = parts[Symbol.iterator]();
    const next = () => {
      const { done, value } = ranges.next();
      return done || either.aborted ? null : { range: value };
    };
    await concurrently(Math.min(lanes, parts.length), next, async ({ range }) => {
      await untilLagIsLow(environment, either);
      await scan(environment, opened, side, { kind: "buckets", buckets, range }, either, (row) =>
        found.add(side, row),
      );
      progress(found.rows("source") + found.rows("sink"));
    });
    either.throwIfAborted();
  });
  return found;
}

/** Yields what differs in these buckets, in groups that fit in memory. A group is gone when the next one is asked for. */
export async function* scanRows(
  environment: VerifyEnvironment,
  opened: OpenedSides,
  found: BucketDifferences,
  differing: readonly number[],
  signal: AbortSignal,
  maxBytes = maxBytesAtOnce,
): AsyncGenerator<UnmatchedRows> {
  const { buckets } = found;
  let rest = differing;
  let maxRows = maxRowsAtOnce;
  while (rest.length > 0) {
    const among = groupsOf({ rowsIn: (bucket) => found.rowsIn(bucket) }, rest, maxRows)[0]!;
    // A group of one bucket cannot be divided.
    using unmatched = new UnmatchedRows(
      opened.comparison.key.length,
      among.length > 1 ? maxBytes : Number.POSITIVE_INFINITY,
    );
    let rows = 0;
    await atBoth(signal, async (side, either) => {
      await untilLagIsLow(environment, either);
      await scan(environment, opened, side, { kind: "rows", buckets, among }, either, (row) => {
        // The reading goes on to its end, as the sink's snapshot does not outlive one that is broken off.
        if (unmatched.isFull) return;
        rows++;
        unmatched.add(side, row);
      });
    });
    if (unmatched.isFull) {
      // So many rows fitted. Fewer are taken next time, as other keys may be longer.
      maxRows = Math.floor(rows * 0.9);
      continue;
    }
    rest = rest.slice(among.length);
    yield unmatched;
  }
}

/** Reads one side. */
export async function scan(
  { permits }: Pick<VerifyEnvironment, "permits">,
  { source, sink, table, point, comparison }: OpenedSides,
  side: Side,
  asked: DigestScan,
  signal: AbortSignal,
  onRow: (row: BinaryRow) => void,
): Promise<void> {
  const read = async () => {
    const chunks =
      side === "source" ? source.read(table, point, comparison, asked, signal) : sink.read(comparison, asked);
    await readBinaryRows(chunksUntilAborted(chunks, signal), onRow);
  };
  // Permits are for connections of the source.
  await (side === "source" ? permits.within(signal, read) : read());
}

/** If one side fails, the other one is broken off. Throws the first failure once both have ended. */
async function atBoth(
  signal: AbortSignal,
  work: (side: Side, either: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  let failure: { readonly error: unknown } | null = null;
  await Promise.all(
    sides.map((side) =>
      work(side, either).catch((error: unknown) => {
        failure ??= { error };
        failed.abort(error);
      }),
    ),
  );
  // The compiler does not see what the sides have assigned.
  const first = failure as { readonly error: unknown } | null;
  if (first !== null) throw first.error;
}

/** The parts in which a side is read: several at once, for its progress, and so that it can wait between them. Pure. */
function partsOf(
  size: TableSize | null,
  estimatedRows: number,
  buckets: number,
): readonly (PageRange | null)[] {
  if (size === null) return [null];
  const byRows = Math.floor(estimatedRows / (buckets * rowsPerBucketAndPart));
  const byBytes = Math.ceil(size.bytes / maxPartBytes);
  const parts = Math.min(maxParts, size.pages, Math.max(byRows, byBytes));
  if (parts <= 1) return [null];
  const pages = Math.ceil(size.pages / parts);
  return Array.from({ length: Math.ceil(size.pages / pages) }, (_, part) => {
    const from = part * pages;
    // The last part goes on to the end, wherever that is by now.
    return { from, to: from + pages >= size.pages ? null : from + pages };
  });
}

/** For a table without statistics: a guess. */
function rowsIn(size: TableSize | null): number {
  return (size?.pages ?? 0) * rowsPerPage;
}

async function untilLagIsLow({ lagBytes }: VerifyEnvironment, signal: AbortSignal): Promise<void> {
  const until = performance.now() + longestPauseMs;
  while (lagBytes() > maxLagBytes && performance.now() < until)
    await untilAborted(Bun.sleep(lagCheckMs), signal);
}
