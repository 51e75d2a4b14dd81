// Counts the bytes of a copy on their way to the sink, reports progress, and knows whether the sink waits for the source.

import type { CopyChunk } from "../../copy-sink.ts";

const reportEveryMs = 500;

export class CountedChunks {
  bytes = 0;
  /** The sink has taken everything so far and waits for the source. */
  isWaiting = false;
  #reportedAt: number;

  constructor(
    private readonly request: Pick<CopyChunk, "chunks" | "rowsRead" | "progress">,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {
    this.#reportedAt = nowMs();
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    this.isWaiting = true;
    for await (const chunk of this.request.chunks) {
      this.isWaiting = false;
      this.bytes += chunk.length;
      this.#report();
      yield chunk;
      this.isWaiting = true;
    }
    this.isWaiting = false;
  }

  #report(): void {
    const now = this.nowMs();
    if (now - this.#reportedAt < reportEveryMs) return;
    this.#reportedAt = now;
    this.request.progress(this.request.rowsRead(), this.bytes);
  }
}
