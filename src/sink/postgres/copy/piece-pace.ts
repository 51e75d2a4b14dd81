// Chooses how many pages are written at a time, so that the stream waits about 100 ms for each piece.

const pieceMs = 100;
const firstPages = 64;

export class PiecePace {
  size = firstPages;

  /** Runs a piece of `size` pages, and adapts the size to the time that it took. */
  async measure<T>(piece: () => Promise<T>): Promise<T> {
    const begunMs = performance.now();
    const result = await piece();
    const tookMs = performance.now() - begunMs;
    if (tookMs < pieceMs / 2) this.size *= 2;
    else if (tookMs > pieceMs) this.size = Math.max(1, Math.floor(this.size / 2));
    return result;
  }
}
