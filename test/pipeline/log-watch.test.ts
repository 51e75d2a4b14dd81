// The watch over what the source keeps of its log: told once, and until it is over.

import { expect, test } from "bun:test";
import { LogWatch } from "../../src/pipeline/log-watch.ts";
import type { KeptLog } from "../../src/source/source.ts";
import { waitFor } from "../support/wait-for.ts";

const everyMs = 5;
const much: KeptLog = {
  bytes: 12 * 1024 ** 3,
  safeBytes: null,
  warning: "Replication slot s keeps 12 GB of the source's log",
};
const little: KeptLog = { bytes: 1024, safeBytes: 77, warning: null };

/** A watch over `look`, and how often it looked and what it told. */
function watched(look: (looks: number) => Promise<KeptLog | null>, isWorthAsking: () => boolean) {
  const seen = { looks: 0, told: [] as (string | null)[] };
  const source = { keptLog: () => look(++seen.looks) };
  const watch = new LogWatch(source, isWorthAsking, (reason) => seen.told.push(reason), everyMs);
  return { seen, watch };
}

test("a warning is told once, and taken back when a look finds it over, whether the work needs the look or not", async () => {
  let isWork = true;
  let kept = much;
  const { seen, watch } = watched(
    async () => kept,
    () => isWork,
  );
  using _watch = watch;
  await waitFor("some looks", () => seen.looks >= 4);
  expect(seen.told).toEqual([much.warning]);
  isWork = false;
  const looks = seen.looks;
  await waitFor("more looks", () => seen.looks >= looks + 2);
  expect(seen.told).toEqual([much.warning]);
  expect(watch.bytes).toBeNull();
  kept = little;
  await waitFor("the end", () => seen.told.length === 2);
  kept = much;
  await waitFor("another", () => seen.told.length === 3);
  expect(seen.told).toEqual([much.warning, null, much.warning]);
});

test("while a warning stands every look is made, so that its end is told soon", async () => {
  const { seen, watch } = watched(
    async () => much,
    () => false,
  );
  using _watch = watch;
  let checks = 0;
  while (checks++ < 5) await watch.check();
  expect(seen.looks).toBeGreaterThanOrEqual(5);
});

test("what the slot keeps is asked now and then, though nobody needs it", async () => {
  const { seen, watch } = watched(
    async () => little,
    () => false,
  );
  using _watch = watch;
  await waitFor("a look", () => watch.slot !== null);
  expect([watch.slot, watch.bytes]).toEqual([{ retainedBytes: 1024, safeBytes: 77, warning: null }, null]);
  const begunAt = performance.now();
  const looks = seen.looks;
  await waitFor("three more", () => seen.looks === looks + 3);
  expect(performance.now() - begunAt).toBeGreaterThan(everyMs * 10);
});

test("a look that fails takes nothing back", async () => {
  const { seen, watch } = watched(
    async (looks) => {
      if (looks % 2 === 0) throw new Error("too many connections");
      return much;
    },
    () => true,
  );
  using _watch = watch;
  await waitFor("some looks", () => seen.looks >= 6);
  expect(seen.told).toEqual([much.warning]);
  expect(watch.bytes).toBe(much.bytes);
});

test("a look that ends after the run tells nothing", async () => {
  const answer = Promise.withResolvers<KeptLog>();
  const { seen, watch } = watched(
    () => answer.promise,
    () => true,
  );
  await waitFor("the look", () => seen.looks === 1);
  watch[Symbol.dispose]();
  answer.resolve(much);
  await Bun.sleep(5 * everyMs);
  expect(seen).toEqual({ looks: 1, told: [] });
});
