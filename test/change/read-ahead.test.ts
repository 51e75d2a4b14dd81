import { expect, test } from "bun:test";
import { readAhead } from "../../src/change/read-ahead.ts";

/**
 * Four chunks of three bytes. Each overwrites the previous one. Counts how many were read, and records whether the
 * reader stopped early.
 */
function chunksOfThree() {
  const progress = { taken: 0, isStopped: false };
  async function* chunks() {
    try {
      for (let i = 0; i < 4; i++) {
        progress.taken++;
        const chunk = Buffer.of(i, i, i);
        yield chunk;
        chunk.fill(9);
      }
    } finally {
      progress.isStopped = true;
    }
  }
  return { progress, chunks: chunks() };
}

test.each([0, 4, 12, 100])("with %i bytes of prefetch all chunks arrive in order", async (bytes) => {
  const { progress, chunks } = chunksOfThree();
  await using ahead = await readAhead(chunks, bytes);
  expect(progress.taken).toBe(Math.min(4, Math.ceil(bytes / 3)));
  expect(progress.isStopped).toBe(bytes > 12);
  const seen: number[] = [];
  for await (const [first] of ahead) seen.push(first!);
  expect(seen).toEqual([0, 1, 2, 3]);
});

test("the rest is not read when the consumer stops", async () => {
  const { progress, chunks } = chunksOfThree();
  await (await readAhead(chunks, 4))[Symbol.asyncDispose]();
  expect(progress).toEqual({ taken: 2, isStopped: true });
});
