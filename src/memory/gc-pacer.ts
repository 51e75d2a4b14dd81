// Starts the garbage collector while a large value passes through in small parts. The collector by
// itself lets as much garbage pile up as the heap holds: next to a value of 200 MB, another 200 MB.

const collectEveryBytes = 24 * 1024 * 1024;

export class GcPacer {
  #releasedBytes = 0;

  /** Counts bytes of buffers that nothing refers to any more. */
  released(bytes: number): void {
    this.#releasedBytes += bytes;
    if (this.#releasedBytes < collectEveryBytes) return;
    this.#releasedBytes = 0;
    Bun.gc(true);
  }
}
