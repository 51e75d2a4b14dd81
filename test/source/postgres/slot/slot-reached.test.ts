import { expect, test } from "bun:test";
import { SlotReached } from "../../../../src/source/postgres/slot/slot-reached.ts";
import { emptySourceState } from "../../../support/pipeline/source-state.ts";

const keptAfterMs = 1_000;
const log = "7/1";

async function reachedAt(xmin: number) {
  const state = await emptySourceState();
  const slot = new SlotReached(state, keptAfterMs);
  slot.saw(log, xmin, 0);
  slot.saw(log, xmin, keptAfterMs);
  return { state, slot };
}

test("what was seen long enough ago counts, in the run that saw it and in the next", async () => {
  const { state, slot } = await reachedAt(700);
  for (const each of [slot, new SlotReached(state, keptAfterMs)])
    expect([699, 700, 701].map((xmin) => each.isSetBack(log, xmin))).toEqual([true, false, false]);
});

test("what was seen just now may not be stored at the server yet", async () => {
  const { slot } = await reachedAt(700);
  slot.saw(log, 800, keptAfterMs + 1);
  slot.saw(log, 800, 2 * keptAfterMs - 1);
  expect(slot.isSetBack(log, 750)).toBe(false);
  slot.saw(log, 800, 2 * keptAfterMs);
  slot.saw(log, 800, 3 * keptAfterMs);
  expect(slot.isSetBack(log, 750)).toBe(true);
});

test("a slot that is set back does not take the place of where it stood", async () => {
  const { slot } = await reachedAt(700);
  for (let atMs = 2; atMs < 6; atMs++) slot.saw(log, 600, atMs * keptAfterMs);
  expect(slot.isSetBack(log, 650)).toBe(true);
});

test("transaction ids go round", async () => {
  const { slot } = await reachedAt(2 ** 32 - 10);
  expect([2 ** 32 - 11, 2 ** 32 - 1, 3, 100].map((xmin) => slot.isSetBack(log, xmin))).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("another log, or another slot, begins anew", async () => {
  const { slot } = await reachedAt(700);
  expect(slot.isSetBack("7/2@0/3000000", 600)).toBe(false);
  slot.saw("7/2@0/3000000", 600, 2 * keptAfterMs);
  slot.saw("7/2@0/3000000", 600, 3 * keptAfterMs);
  expect(slot.isSetBack("7/2@0/3000000", 599)).toBe(true);
  slot.forget();
  expect(slot.isSetBack("7/2@0/3000000", 599)).toBe(false);
});

test("a slot that no other server can have is set back in whatever log", async () => {
  const { slot } = await reachedAt(700);
  expect([699, 700].map((xmin) => slot.isSetBack(null, xmin))).toEqual([true, false]);
});
