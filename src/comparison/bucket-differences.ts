// Which buckets of rows differ between source and sink. Both sides add what their servers say, in any order and in any number of parts. Pure.

import type { BinaryRow } from "./digest-rows.ts";

export type Side = "source" | "sink";

const lanes = 4;

export class BucketDifferences {
  readonly #counts: Readonly<Record<Side, Uint32Array>>;
  /** The difference of both sides' digests; 0: they are equal. */
  readonly #digests: Int32Array;
  readonly #rows = { source: 0, sink: 0 };

  constructor(
    readonly buckets: number,
    /** Digests are sums, as equal rows are several. Otherwise they are exclusive ors. */
    private readonly areSums: boolean,
  ) {
    this.#counts = { source: new Uint32Array(buckets), sink: new Uint32Array(buckets) };
    this.#digests = new Int32Array(buckets * lanes);
  }

  rows(side: Side): number {
    return this.#rows[side];
  }

  /** Takes a row of a scan of kind `buckets`. */
  add(side: Side, row: BinaryRow): void {
    const bucket = row.int32(0);
    const count = row.integer(1);
    this.#rows[side] += count;
    this.#counts[side][bucket]! += count;
    for (let lane = 0; lane < lanes; lane++) {
      const at = bucket * lanes + lane;
      if (!this.areSums) this.#digests[at]! ^= row.int32(2 + (lane >> 1), (lane & 1) * 4);
      // The low half of the sum: sums are compared modulo 2^32.
      else if (side === "source") this.#digests[at]! += row.int32(2 + lane, 4);
      else this.#digests[at]! -= row.int32(2 + lane, 4);
    }
  }

  differing(): readonly number[] {
    return Array.from({ length: this.buckets }, (_, bucket) => bucket).filter((bucket) =>
      this.#differs(bucket),
    );
  }

  /** How many rows of the bucket have to be looked at. */
  rowsIn(bucket: number): number {
    return this.#counts.source[bucket]! + this.#counts.sink[bucket]!;
  }

  #differs(bucket: number): boolean {
    if (this.#counts.source[bucket] !== this.#counts.sink[bucket]) return true;
    for (let lane = 0; lane < lanes; lane++) if (this.#digests[bucket * lanes + lane] !== 0) return true;
    return false;
  }
}

/** How many rows of a table are likely to differ. */
export type Expected = "Few" | "Many";

/**
 * All rows of a bucket that differs are read again: where 1 % of the rows differ here and there, 2 in 10 rows with buckets of 16, and nearly all
 * with 256. But servers add a row to one of few buckets faster, as these stay in a processor's cache: where nothing differs, 64 rows a bucket
 * cost a tenth more than 256. Twice as many rows may be in a bucket.
 */
const leastRowsPerBucket = { Few: 256, Many: 16 } as const satisfies Record<Expected, number>;
const bounds = { least: 64, most: 2 ** 18 } as const;

/** Small buckets leave few rows to be looked at. More than that many would be more work for the servers than their rows. */
export function bucketsFor(rows: number, expected: Expected): number {
  const wanted = 2 ** Math.floor(Math.log2(Math.max(1, rows / leastRowsPerBucket[expected])));
  return Math.min(bounds.most, Math.max(bounds.least, wanted));
}

/** Divides buckets into groups of at most about `most` rows, so that a group's rows fit in memory. */
export function groupsOf(
  { rowsIn }: Pick<BucketDifferences, "rowsIn">,
  buckets: readonly number[],
  most: number,
): readonly (readonly number[])[] {
  const groups: number[][] = [];
  let rows = Number.POSITIVE_INFINITY;
  for (const bucket of buckets) {
    const added = rowsIn(bucket);
    if (rows + added > most) {
      groups.push([]);
      rows = 0;
    }
    groups.at(-1)!.push(bucket);
    rows += added;
  }
  return groups;
}
