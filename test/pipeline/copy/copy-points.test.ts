// The points that copies are made as of, one after the other, by a clock that the test moves.

import { describe, expect, test } from "bun:test";
import { lsn } from "../../../src/change/lsn.ts";
import { CopyPoints } from "../../../src/pipeline/copy/copy-points.ts";
import type { SnapshotPoint } from "../../../src/source/table-source.ts";

class Points {
  nowMs = 0;
  readonly open = new Set<bigint>();
  /** What `next` waits for. */
  ready: Promise<unknown> = Promise.resolve();
  #last = 0n;

  make(): SnapshotPoint {
    const at = ++this.#last;
    this.open.add(at);
    return {
      lsn: lsn(at),
      timeUs: at,
      log: "log",
      [Symbol.asyncDispose]: async () => {
        this.open.delete(at);
      },
    };
  }

  copies(isRenewed = true): CopyPoints {
    const next = async () => {
      await this.ready;
      return this.make();
    };
    return new CopyPoints(this.make(), isRenewed ? { next, afterMs: 100 } : null, () => this.nowMs);
  }
}

const pointOf = (points: CopyPoints) => points.use(async ({ lsn }) => lsn);
/** Promises that are settled have been told. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a point", () => {
  test("is followed by no other while copies are made as of the one before it", async () => {
    const source = new Points();
    const points = source.copies();
    const long = Promise.withResolvers<void>();
    const copy = points.use(() => long.promise);
    for (let nowMs = 100; nowMs <= 500; nowMs += 100) {
      source.nowMs = nowMs;
      await pointOf(points);
      await settle();
    }
    expect([...source.open]).toEqual([1n, 2n]);
    long.resolve();
    await copy;
    await pointOf(points);
    await settle();
    expect([...source.open]).toEqual([3n]);
    await points[Symbol.asyncDispose]();
  });

  test("is for what begins within its time; what goes on as of it keeps it open", async () => {
    const source = new Points();
    const points = source.copies();
    const long = Promise.withResolvers<void>();
    const copy = points.use(() => long.promise);
    source.nowMs = 99;
    expect(await pointOf(points)).toBe(lsn(1n));
    source.nowMs = 100;
    expect(await pointOf(points)).toBe(lsn(1n));
    await settle();
    expect(await pointOf(points)).toBe(lsn(2n));
    expect([...source.open]).toEqual([1n, 2n]);
    long.resolve();
    await copy;
    expect([...source.open]).toEqual([2n]);
    await points[Symbol.asyncDispose]();
    expect(source.open.size).toBe(0);
  });

  test("is kept while another cannot be had", async () => {
    const source = new Points();
    await using points = source.copies();
    source.nowMs = 100;
    const blocked = Promise.withResolvers<void>();
    source.ready = blocked.promise;
    expect(await pointOf(points)).toBe(lsn(1n));
    blocked.reject(new Error("somebody writes"));
    await settle();
    expect(await pointOf(points)).toBe(lsn(1n));
    // It is asked for once more when another such time has passed.
    source.ready = Promise.resolve();
    source.nowMs = 200;
    await pointOf(points);
    await settle();
    expect(await pointOf(points)).toBe(lsn(2n));
  });

  test("is the only one where no stream brings what lies between", async () => {
    const source = new Points();
    await using points = source.copies(false);
    source.nowMs = 10_000;
    await pointOf(points);
    await settle();
    expect(await pointOf(points)).toBe(lsn(1n));
  });

  test("that is had after the copies are over is let go", async () => {
    const source = new Points();
    const points = source.copies();
    source.nowMs = 100;
    await pointOf(points);
    await points[Symbol.asyncDispose]();
    expect(source.open.size).toBe(0);
  });

  test("is not waited for when the copies are over", async () => {
    const source = new Points();
    let isStopped = false;
    const never = (stop: AbortSignal) =>
      new Promise<never>((_, reject) => {
        stop.addEventListener("abort", () => {
          isStopped = true;
          reject(stop.reason);
        });
      });
    const points = new CopyPoints(source.make(), { next: never, afterMs: 0 });
    await pointOf(points);
    await points[Symbol.asyncDispose]();
    expect([isStopped, source.open.size]).toEqual([true, 0]);
  });
});
