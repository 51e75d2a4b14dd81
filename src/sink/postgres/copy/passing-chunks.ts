// The chunks of a copy on their way to the sink: told of now and then, and whether the next one is waited for.

import type { CopyRequest } from "../../sink.ts";

const tellEveryMs = 500;

export class PassingChunks {
  bytes = 0;
  /** The sink has all that has come so far, and waits for the source. */
  isWaiting = false;
  #toldAt: number;

  constructor(
    private readonly request: Pick<CopyRequest, "chunks" | "rowsRead" | "progress">,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {
    this.#toldAt = nowMs();
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    this.isWaiting = true;
    for await (const chunk of this.request.chunks) {
      this.isWaiting = false;
      this.bytes += chunk.length;
      this.#tell();
      yield chunk;
      this.isWaiting = true;
    }
    this.isWaiting = false;
  }

  #tell(): void {
    const now = this.nowMs();
    if (now - this.#toldAt < tellEveryMs) return;
    this.#toldAt = now;
    this.request.progress(this.request.rowsRead(), this.bytes);
  }
}
