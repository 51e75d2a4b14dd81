import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { CopyGate } from "../../../../src/sink/delivery/copy/copy-gate.ts";

function gateOf(mostBytes?: number) {
  const gate = new CopyGate(mostBytes);
  const went: string[] = [];
  const put = (name: string, text: string) =>
    gate.put(name, {
      bytes: 10,
      send: () => went.push(text),
      drop: () => went.push(`dropped ${text}`),
    });
  return { gate, went, put };
}

test("what a table's copy goes before waits for it, from the copy's point on", () => {
  const { gate, went, put } = gateOf();
  let reached = 0;
  gate.watch(1, "t");
  expect(gate.close(1, lsn(100n), () => reached++)).toBe(true);
  expect([gate.isReachedBy(lsn(99n)), gate.holds("t")]).toEqual([false, false]);
  expect(gate.isReachedBy(lsn(100n))).toBe(true);
  gate.reach(lsn(100n));
  expect([reached, gate.isReachedBy(lsn(101n)), gate.holds("t"), gate.holds("u")]).toEqual([
    ...[1, false],
    ...[true, false],
  ]);
  put("t", "a");
  put("t", "b");
  expect(went).toEqual([]);
  gate.open(1);
  expect(went).toEqual(["a", "b"]);
  expect([gate.isIdle, gate.holds("t")]).toEqual([true, false]);
});

test("a point that the stream has brought changes from behind of is no point of the copy's", () => {
  const { gate, put, went } = gateOf();
  gate.watch(1, "t");
  gate.see("t", lsn(50n));
  gate.see("u", lsn(70n));
  expect(gate.close(1, lsn(50n), () => {})).toBe(false);
  expect(gate.close(1, lsn(51n), () => {})).toBe(true);
  gate.reach(lsn(60n));
  put("t", "a");
  gate.drop(1);
  expect(went).toEqual(["dropped a"]);
});

test("what waits is bounded, and waits for the second copy of a table too", async () => {
  const { gate, put, went } = gateOf(15);
  for (const copy of [1, 2]) {
    gate.watch(copy, "t");
    gate.close(copy, lsn(1n), () => {});
  }
  gate.reach(lsn(1n));
  put("t", "a");
  expect(gate.isFull).toBe(false);
  put("t", "b");
  expect(gate.isFull).toBe(true);
  let isAmple = false;
  const ample = gate.ample().then(() => {
    isAmple = true;
  });
  gate.open(1);
  await Promise.resolve();
  expect([went, isAmple]).toEqual([[], false]);
  gate.open(2);
  await ample;
  expect(went).toEqual(["a", "b"]);
});
