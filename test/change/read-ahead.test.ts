import { expect, test } from "bun:test";
import { readAhead } from "../../src/change/read-ahead.ts";

/** Four chunks of three bytes, each written over when the next is asked for; tells how many were taken, and whether it was left. */
function chunksOfThree() {
  const told = { taken: 0, isLeft: false };
  async function* chunks() {
    try {
      for (let i = 0; i < 4; i++) {
        told.taken++;
        const chunk = Buffer.of(i, i, i);
        yield chunk;
        chunk.fill(9);
      }
    } finally {
      told.isLeft = true;
    }
  }
  return { told, chunks: chunks() };
}

test.each([0, 4, 12, 100])("with %i bytes ahead all chunks come in their order", async (bytes) => {
  const { told, chunks } = chunksOfThree();
  await using ahead = await readAhead(chunks, bytes);
  expect(told.taken).toBe(Math.min(4, Math.ceil(bytes / 3)));
  expect(told.isLeft).toBe(bytes > 12);
  const seen: number[] = [];
  for await (const [first] of ahead) seen.push(first!);
  expect(seen).toEqual([0, 1, 2, 3]);
});

test("the rest is left unread where nobody wants it", async () => {
  const { told, chunks } = chunksOfThree();
  await (await readAhead(chunks, 4))[Symbol.asyncDispose]();
  expect(told).toEqual({ taken: 2, isLeft: true });
});
