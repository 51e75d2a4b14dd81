// What differs is looked at in groups that fit in memory, however long its keys are.

import { expect, test } from "bun:test";
import { BucketDifferences, bucketsFor, type Side } from "../../../src/comparison/bucket-differences.ts";
import { readBinaryRows } from "../../../src/comparison/digest-rows.ts";
import type { DigestScan } from "../../../src/comparison/row-comparison.ts";
import type { OpenedSides } from "../../../src/pipeline/verify/opened-sides.ts";
import { scanBuckets, scanRows } from "../../../src/pipeline/verify/scan-sides.ts";
import type { VerifyEnvironment } from "../../../src/pipeline/verify/verify-environment.ts";
import { MemoryWatch } from "../../support/program/process-memory.ts";
import { copyOf } from "../../support/rows/binary-copy.ts";

const buckets = 64;
const rowsPerBucket = 50;

/** All rows of a bucket are at the source alone. */
function sidesOf(keyBytes: number, scans: number[]): OpenedSides {
  async function* read(rows: boolean, scan: DigestScan) {
    if (scan.kind !== "rows") throw new Error("not asked for here");
    const keys = scan.among.flatMap((bucket) =>
      Array.from({ length: rowsPerBucket }, (_, at) => BigInt(bucket * rowsPerBucket + at)),
    );
    if (rows) scans.push(scan.among.length);
    yield copyOf(rows ? keys.map((key) => [key, key, String(key).padStart(keyBytes, "k")]) : []);
  }
  const sides = {
    source: {
      read: (_table: unknown, _point: unknown, _comparison: unknown, scan: DigestScan) => read(true, scan),
    },
    sink: { read: (_comparison: unknown, scan: DigestScan) => read(false, scan) },
    comparison: { key: [1] },
  };
  return sides as unknown as OpenedSides;
}

async function found(rowsOf: Partial<Record<Side, number>>): Promise<BucketDifferences> {
  const differences = new BucketDifferences(buckets, false);
  for (const [side, count] of Object.entries(rowsOf)) {
    const digest = side === "source" ? 1n : 2n;
    const rows = Array.from(
      { length: buckets },
      (_, bucket) => [bucket, BigInt(count), digest, digest] as const,
    );
    await readBinaryRows(
      (async function* () {
        yield copyOf(rows);
      })(),
      (row) => differences.add(side as Side, row),
    );
  }
  return differences;
}

const environment = {
  lagBytes: () => 0,
  permits: { within: (_signal: AbortSignal, work: () => Promise<void>) => work() },
} as unknown as VerifyEnvironment;

test.each([
  [10, 1],
  [2_000, 8],
  [50_000, 64],
])("keys of %d bytes take %d groups at least", async (keyBytes, least) => {
  const scans: number[] = [];
  const differences = await found({ source: rowsPerBucket });
  const groups = scanRows(
    environment,
    sidesOf(keyBytes, scans),
    differences,
    differences.differing(),
    new AbortController().signal,
    2 * 1024 * 1024,
  );
  const keys = new Set<string>();
  let seen = 0;
  for await (const unmatched of groups) {
    seen++;
    for (const { key } of [...unmatched.differences()].flat()) keys.add(key[0]!);
    const isOneBucket = scans.at(-1) === 1;
    expect(isOneBucket || unmatched.bytes <= 2 * 1024 * 1024).toBeTrue();
  }
  expect(keys.size).toBe(buckets * rowsPerBucket);
  expect(seen).toBeGreaterThanOrEqual(least);
  // Few readings are in vain.
  expect(scans.length - seen).toBeLessThan(6);
});

/** With 31,250 there are two million rows, as many as 192 MB have room for; they take half a minute. */
const differingPerBucket = 3_750;
const differingBytes = 24 * 1024 * 1024;
const rowsPerChunk = 1_250;

/** All rows differ. As chunks are: in memory that is used again, and with rows that are in two of them. It makes no garbage. */
async function* differingRows(side: Side, scan: DigestScan): AsyncGenerator<Uint8Array> {
  if (scan.kind !== "rows") throw new Error("not asked for here");
  const row = [0n, 0n, "12345678"] as const;
  const template = copyOf(Array.from({ length: rowsPerChunk }, () => row));
  const rowBytes = copyOf([row, row]).length - copyOf([row]).length;
  const header = copyOf([]).length - 2;
  yield template.subarray(0, header);
  const rows = new Uint8Array(template.subarray(header, header + rowsPerChunk * rowBytes));
  const view = new DataView(rows.buffer);
  for (const bucket of scan.among) {
    for (let from = 0; from < differingPerBucket; from += rowsPerChunk) {
      for (let at = 0; at < rowsPerChunk; at++) {
        const id = bucket * differingPerBucket + from + at;
        const digest = at * rowBytes + 6;
        for (let word = 0; word < 2; word++) {
          const seed = word * 2 + (side === "source" ? 0 : 1);
          view.setInt32(digest + word * 12, mixed(id * 4 + seed));
          view.setInt32(digest + word * 12 + 4, mixed(id * 4 + seed + 2 ** 30));
        }
        let rest = id;
        for (let digit = rowBytes; digit > rowBytes - 8; digit--) {
          rows[at * rowBytes + digit - 1] = 48 + (rest % 10);
          rest = Math.floor(rest / 10);
        }
      }
      yield rows.subarray(0, 10);
      yield rows.subarray(10);
    }
  }
}

/** https://github.com/skeeto/hash-prospector: different for different numbers. */
function mixed(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  hash = Math.imul(hash ^ (hash >>> 15), 0x735a2d97);
  return hash ^ (hash >>> 15);
}

test("a table in which all rows differ takes little more memory than what may be looked at once", async () => {
  const opened = {
    source: {
      read: (_table: unknown, _point: unknown, _comparison: unknown, scan: DigestScan) =>
        differingRows("source", scan),
    },
    sink: { read: (_comparison: unknown, scan: DigestScan) => differingRows("sink", scan) },
    comparison: { key: [1] },
  } as unknown as OpenedSides;
  const differences = await found({ source: differingPerBucket, sink: differingPerBucket });
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  using watch = new MemoryWatch(process.pid);
  const { signal } = new AbortController();
  let changed = 0;
  const differing = differences.differing();
  for await (const unmatched of scanRows(
    environment,
    opened,
    differences,
    differing,
    signal,
    differingBytes,
  )) {
    for (const part of unmatched.differences()) {
      changed += part.filter(({ kind }) => kind === "Changed").length;
      // Others have their turn between two parts.
      await Bun.sleep(0);
    }
  }
  expect(changed).toBe(buckets * differingPerBucket);
  expect(watch.peak().resident - before).toBeLessThan(4 * differingBytes);
});

/** A table of which nobody knows how large it is. All of its rows are at the source alone, or equal. */
async function bucketsOf(rows: number, doDiffer: boolean): Promise<readonly number[]> {
  const asked: number[] = [];
  async function* read(side: "source" | "sink", scan: DigestScan) {
    if (scan.kind !== "buckets") throw new Error("not asked for here");
    if (side === "source") asked.push(scan.buckets);
    const count = BigInt(rows / scan.buckets);
    const all = Array.from({ length: scan.buckets }, (_, bucket) => [bucket, count, 1n, 1n] as const);
    yield copyOf(doDiffer && side === "sink" ? [] : all);
  }
  const opened = {
    table: { estimatedRows: 0 },
    source: {
      size: async () => null,
      read: (_table: unknown, _point: unknown, _comparison: unknown, scan: DigestScan) =>
        read("source", scan),
    },
    sink: { size: null, read: (_comparison: unknown, scan: DigestScan) => read("sink", scan) },
    comparison: { key: [1], areEqualRowsOne: false },
  } as unknown as OpenedSides;
  const { signal } = new AbortController();
  const lanes = { ...environment, lanes: 1, parallel: 1 };
  const differences = await scanBuckets(lanes, opened, "Many", signal, () => {});
  expect(differences.rows("source")).toBe(rows);
  expect(differences.buckets).toBe(asked.at(-1)!);
  return asked;
}

test("a table without statistics that differs much is divided into more buckets once its rows are known", async () => {
  const rows = 2 ** 24;
  expect(await bucketsOf(rows, true)).toEqual([64, bucketsFor(rows, "Many")]);
  expect(await bucketsOf(rows, false)).toEqual([64]);
  expect(await bucketsOf(2 ** 16, true)).toEqual([64]);
});
