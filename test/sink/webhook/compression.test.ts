// Compressing: what many bodies at once take of memory, and that who is stopped does not wait.

import { expect, test } from "bun:test";
import { PartedBody } from "../../../src/sink/format/values/message-body.ts";
import { compress } from "../../../src/sink/webhook/compression.ts";

test("many bodies that are compressed at once take little memory", async () => {
  const program = `
    import { compress } from "./src/sink/webhook/compression.ts";
    const numbers = crypto.getRandomValues(new Uint32Array(1 << 14));
    const text = Array.from({ length: 1 << 14 }, (_, i) => '{"id":' + i + ',"number":' + numbers[i] + ',"label":"the same in all rows"},');
    const body = new TextEncoder().encode(text.join(""));
    const bodies = Array.from({ length: 64 }, () => body);
    const began = process.memoryUsage.rss();
    let most = began;
    const watch = setInterval(() => { most = Math.max(most, process.memoryUsage.rss()); }, 2);
    const { signal } = new AbortController();
    await Promise.all(bodies.map((body) => compress("Br", body, signal)));
    clearInterval(watch);
    console.log((most - began) / 2 ** 20);`;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
  const grownMb = Number(await new Response(child.stdout).text());
  expect(await child.exited).toBe(0);
  // It was 27 MB; without a bound on how many are compressed at once, 160.
  expect(grownMb).toBeLessThan(90);
});

test("who is stopped while others are compressed does not begin, and the others go on", async () => {
  const body = () => new PartedBody([new Uint8Array(1 << 20)]);
  const [stopped, { signal }] = [new AbortController(), new AbortController()];
  const before = [compress("Gzip", body(), signal), compress("Br", body(), signal)];
  const waiting = compress("Zstd", body(), stopped.signal).catch((error: unknown) => error);
  const behind = compress("Gzip", body(), signal);
  stopped.abort(new Error("stopped"));
  expect(await waiting).toMatchObject({ message: "stopped" });
  for (const each of [...before, behind]) expect((await each).length).toBeLessThan(1 << 18);
});
