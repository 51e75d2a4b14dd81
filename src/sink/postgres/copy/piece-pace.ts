// Chooses how many pages are written at a time, so that the stream waits about 100 ms for each piece.

const pieceMs = 100;
const firstPages = 64;

export class PiecePace {
  size = firstPages;

  /** Runs a piece of so many pages, and adapts the size to the time that it took. A smaller piece than that says nothing of a full one. */
  async measure<T>(pages: number, piece: () => Promise<T>): Promise<T> {
    const begunMs = performance.now();
    const result = await piece();
    const tookMs = performance.now() - begunMs;
    if (tookMs < pieceMs / 2 && pages >= this.size) this.size *= 2;
    else if (tookMs > pieceMs) this.size = Math.max(1, Math.floor(this.size / 2));
    return result;
  }
}
