// Chooses how many pages are written at a time, so that the stream waits about 100 ms for each piece.

const pieceMs = 100;
const firstPages = 64;

export class PiecePace {
  size = firstPages;

  constructor(private readonly nowMs: () => number = performance.now.bind(performance)) {}

  /** Runs a piece of `size` pages, and adapts the size to the time that it took. */
  async measure<T>(piece: () => Promise<T>): Promise<T> {
    const begunMs = this.nowMs();
    const result = await piece();
    const tookMs = this.nowMs() - begunMs;
    if (tookMs < pieceMs / 2) this.size *= 2;
    else if (tookMs > pieceMs) this.size = Math.max(1, Math.floor(this.size / 2));
    return result;
  }
}
