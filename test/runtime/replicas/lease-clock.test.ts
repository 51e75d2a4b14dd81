import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { leaseClock, sleepCountingClock, uptimeClock } from "../../../src/runtime/replicas/lease-clock.ts";
import { usedMs } from "../../support/processor-time.ts";

describe("the lease's clock", () => {
  test("goes on as time does, and never back", async () => {
    const clock = leaseClock();
    // Other work may come between two readings: the truth lies between the one before and the one after.
    const reading = () => ({ from: performance.now(), at: clock(), by: performance.now() });
    const first = reading();
    let last = first;
    for (let each = 0; each < 50; each++) {
      await Bun.sleep(2);
      const next = reading();
      expect(next.at).toBeGreaterThanOrEqual(last.at);
      last = next;
    }
    // The uptime is told in steps of 10 ms.
    expect(last.at - first.at).toBeWithin(last.from - first.by - 12, last.by - first.from + 12);
  });

  test("is read so cheaply that every write may ask it", () => {
    const clock = leaseClock();
    const readings = 20_000;
    const begun = usedMs();
    for (let each = 0; each < readings; each++) clock();
    // About 1 µs; the bound is for a slow machine.
    expect(((usedMs() - begun) * 1000) / readings).toBeLessThan(50);
  });

  test("reads the uptime anew each time, so that it shows a sleep at once", () => {
    const directory = mkdtempSync(join(tmpdir(), "uptime-"));
    try {
      const path = join(directory, "uptime");
      writeFileSync(path, "13540.33 27000.00\n");
      const clock = uptimeClock(path);
      expect(clock?.()).toBe(13_540_330);
      writeFileSync(path, "99999.01 27000.00\n");
      expect(clock?.()).toBe(99_999_010);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  test("is another one where there is no uptime, or none that can be read", () => {
    expect(uptimeClock("/nowhere/uptime")).toBeNull();
    const directory = mkdtempSync(join(tmpdir(), "uptime-"));
    try {
      writeFileSync(join(directory, "uptime"), "up for days\n");
      expect(uptimeClock(join(directory, "uptime"))).toBeNull();
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  test.if(existsSync("/proc/uptime"))("is the uptime on Linux", () => {
    expect(Math.abs(leaseClock()() - uptimeClock("/proc/uptime")!())).toBeLessThan(50);
  });
});

describe("monotonic and wall clock together", () => {
  function clocks() {
    const at = { monotonic: 5_000, wall: 1_000_000 };
    const clock = sleepCountingClock(
      () => at.monotonic,
      () => at.wall,
    );
    const pass = (ms: number, wallMs = ms) => {
      at.monotonic += ms;
      at.wall += wallMs;
    };
    return { clock, pass };
  }

  test("count a sleep, in which the wall clock alone goes on", () => {
    const { clock, pass } = clocks();
    const began = clock();
    pass(10, 9_010);
    expect(clock() - began).toBe(9_010);
    pass(100);
    expect(clock() - began).toBe(9_110);
  });

  test("never go back with the wall clock, and count the sleep after that", () => {
    const { clock, pass } = clocks();
    const began = clock();
    pass(10, -3_600_000);
    expect(clock() - began).toBe(10);
    pass(10, 60_010);
    expect(clock() - began).toBe(60_020);
  });

  test("do not add up the jitter of readings", () => {
    const { clock, pass } = clocks();
    const began = clock();
    for (let each = 0; each < 10_000; each++) {
      pass(0.1, 1);
      clock();
      pass(0.9, 0);
      clock();
    }
    expect(clock() - began).toBeCloseTo(10_000, 3);
  });

  test("follow a wall clock that is corrected slowly, by at most what it is corrected by", () => {
    const { clock, pass } = clocks();
    const began = clock();
    for (let each = 0; each < 1_000; each++) {
      pass(100, 100.05);
      clock();
    }
    const further = clock() - began - 100_000;
    expect(further).toBeGreaterThanOrEqual(0);
    expect(further).toBeLessThanOrEqual(50);
  });
});
