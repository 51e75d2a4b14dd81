// How far a copy is, told while its chunks pass.

import { expect, test } from "bun:test";
import { CountedChunks } from "../../../../src/sink/postgres/copy/counted-chunks.ts";

test("rows and bytes are told every half second while chunks pass", async () => {
  let now = 0;
  let rows = 0;
  const told: number[][] = [];
  const waited: boolean[] = [];
  async function* read() {
    for (const ms of [100, 500, 700, 1_000]) {
      waited.push(passing.isWaiting);
      now = ms;
      rows += 10;
      yield new Uint8Array(100);
    }
  }
  const progress = (...so: number[]) => told.push(so);
  const passing: CountedChunks = new CountedChunks(
    { chunks: read(), rowsRead: () => rows, progress },
    () => now,
  );
  for await (const _ of passing.chunks()) expect(passing.isWaiting).toBe(false);
  expect(told).toEqual([
    [20, 200],
    [40, 400],
  ]);
  expect(waited).toEqual([true, true, true, true]);
  expect([passing.bytes, passing.isWaiting]).toEqual([400, false]);
});
