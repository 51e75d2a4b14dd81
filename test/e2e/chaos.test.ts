// A few rounds of `bun run chaos`, other ones each time: what it says holds the seed that brings them back.

import { expect, test } from "bun:test";
import { join } from "node:path";

const rounds = 3;

test("rounds of random load under random faults end equal, with nothing left over", async () => {
  const script = join(import.meta.dirname, "..", "chaos", "chaos.ts");
  const chaos = Bun.spawn([process.execPath, script, `--rounds=${rounds}`], {
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
}, 400_000);
