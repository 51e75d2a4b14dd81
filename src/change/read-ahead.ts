// Prefetches the first chunks of a reader. Each chunk is the consumer's until it asks for the next one.

import { releaseBytes } from "./release-bytes.ts";

export interface AheadChunks extends AsyncIterable<Uint8Array>, AsyncDisposable {}

/** Returns when `bytes` are read, or everything. Disposing leaves the rest unread. */
export async function readAhead(chunks: AsyncIterable<Uint8Array>, bytes: number): Promise<AheadChunks> {
  const iterator = chunks[Symbol.asyncIterator]();
  const first: Uint8Array[] = [];
  let [isOver, read] = [false, 0];
  while (!isOver && read < bytes) {
    const next = await iterator.next();
    isOver = next.done === true;
    if (next.done) break;
    // Copied, because the chunk is ours only until the next one. `slice` of a Buffer would share its memory.
    first.push(new Uint8Array(next.value));
    read += next.value.length;
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    for (let chunk = first.shift(); chunk; chunk = first.shift()) {
      yield chunk;
      releaseBytes(chunk);
    }
    while (!isOver) {
      const next = await iterator.next();
      isOver = next.done === true;
      if (!next.done) yield next.value;
    }
  }
  return {
    [Symbol.asyncIterator]: all,
    async [Symbol.asyncDispose]() {
      if (!isOver) await iterator.return?.();
      isOver = true;
    },
  };
}
