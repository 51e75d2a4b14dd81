// The points that copies are made as of, one after the other, by a clock that the test moves; and the pieces of work that share them.

import { describe, expect, test } from "bun:test";
import { lsn } from "../../../src/change/lsn.ts";
import { CopyPoints } from "../../../src/pipeline/copy/copy-points.ts";
import { type Work, WorkPool } from "../../../src/pipeline/copy/work-pool.ts";
import type { SnapshotPoint } from "../../../src/source/source.ts";

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
    return new CopyPoints(this.make(), {
      next: isRenewed ? next : null,
      heldMs: 100,
      nowMs: () => this.nowMs,
    });
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
});

describe("pieces of work", () => {
  test("run a few side by side, those that one adds before the others", async () => {
    const pool = new WorkPool(2, new AbortController().signal);
    const order: string[] = [];
    let running = 0;
    let most = 0;
    const piece = (name: string, parts: readonly string[] = []): Work => {
      return async () => {
        most = Math.max(most, ++running);
        order.push(name);
        await settle();
        pool.add(parts.map((part) => piece(part)));
        running--;
      };
    };
    pool.add([piece("a", ["a1", "a2", "a3"]), piece("b"), piece("c"), piece("d")]);
    await pool.ended();
    expect(order).toEqual(["a", "b", "a1", "a2", "a3", "c", "d"]);
    expect(most).toBe(2);
  });

  test("end with the first failure, once what is in hand is finished; and when they are to stop", async () => {
    const stop = new AbortController();
    const done: number[] = [];
    const failing = new WorkPool(2, stop.signal);
    failing.add([
      () => Promise.reject(new Error("first")),
      async () => {
        await settle();
        done.push(1);
      },
      async () => void done.push(2),
    ]);
    expect(failing.ended()).rejects.toThrow("first");
    await settle();
    await settle();
    expect(done).toEqual([1]);
    const stopped = new WorkPool(1, stop.signal);
    stopped.add([async () => stop.abort(), async () => void done.push(3)]);
    await stopped.ended();
    expect(done).toEqual([1]);
  });
});
