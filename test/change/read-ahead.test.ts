import { expect, test } from "bun:test";
import { readAhead } from "../../src/change/read-ahead.ts";

/** Four chunks of three bytes; tells how many were taken, and whether it was left. */
function chunksOfThree() {
  const told = { taken: 0, isLeft: false };
  async function* chunks() {
    try {
      for (let i = 0; i < 4; i++) {
        told.taken++;
        yield new Uint8Array([i, i, i]);
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
  expect((await Array.fromAsync(ahead)).map(([first]) => first)).toEqual([0, 1, 2, 3]);
});

test("the rest is left unread where nobody wants it", async () => {
  const { told, chunks } = chunksOfThree();
  await (await readAhead(chunks, 4))[Symbol.asyncDispose]();
  expect(told).toEqual({ taken: 2, isLeft: true });
});
