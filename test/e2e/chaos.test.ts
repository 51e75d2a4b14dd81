// A few rounds of `bun run chaos`, with one service and with replicas, other ones each time: what it says holds the seed that brings them back.

import { expect, test } from "bun:test";
import { join } from "node:path";
import { isWholeMatrix, matrixTest } from "../support/matrix.ts";

async function play(rounds: number, ...options: readonly string[]): Promise<void> {
  const script = join(import.meta.dirname, "..", "chaos", "chaos.ts");
  const chaos = Bun.spawn([process.execPath, script, `--rounds=${rounds}`, ...options], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [said, complained] = await Promise.all([
    new Response(chaos.stdout).text(),
    new Response(chaos.stderr).text(),
  ]);
  const code = await chaos.exited;
  if (code !== 0) console.error(said, complained);
  expect(code).toBe(0);
  expect(said).toContain(`${rounds} rounds`);
}

test("rounds of random load under random faults end equal, with nothing left over", async () => {
  await play(isWholeMatrix ? 2 : 1);
}, 400_000);

// What the leases promise of replicas under faults, test/runtime/replicas/lease-model.test.ts plays every day.
matrixTest(
  "so do rounds with several replicas, and each connector has one holder",
  async () => {
    await play(1, "--replicas=3");
  },
  400_000,
);
