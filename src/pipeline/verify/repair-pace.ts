// Chooses how many rows are repaired at a time, so that the stream waits about 200 ms for each piece. Pure.

const pieceMs = { wanted: 200, most: 800 } as const;
const pieceRows = { first: 500, most: 10_000, least: 20 } as const;
const remembered = 8;

interface Piece {
  readonly rows: number;
  readonly ms: number;
}

export class RepairPace {
  rows: number = pieceRows.first;
  #last: readonly Piece[] = [];

  /** A piece of `rows` rows took so long. */
  took(rows: number, ms: number): void {
    this.#last = [...this.#last, { rows, ms }].slice(-remembered);
    // Where round trips are slow, few rows take as long as many: smaller pieces would make the stream wait more often, for as long each time.
    const fixedMs = fixedMsOf(this.#last);
    const isFull = rows >= this.rows;
    if (isFull && ms < Math.max(pieceMs.wanted, fixedMs * 2))
      this.rows = Math.min(pieceRows.most, this.rows * 2);
    else if (ms > Math.max(pieceMs.most, fixedMs * 3)) this.rows = Math.max(pieceRows.least, this.rows >> 1);
  }
}

/** What a piece of no rows would take, by least squares. 0 where all pieces have as many rows. */
function fixedMsOf(pieces: readonly Piece[]): number {
  const mean = (of: (piece: Piece) => number) =>
    pieces.reduce((sum, piece) => sum + of(piece), 0) / pieces.length;
  const [rows, ms] = [mean((piece) => piece.rows), mean((piece) => piece.ms)];
  const spread = mean((piece) => (piece.rows - rows) ** 2);
  if (spread === 0) return 0;
  const perRowMs = mean((piece) => (piece.rows - rows) * (piece.ms - ms)) / spread;
  return Math.max(0, ms - rows * Math.max(0, perRowMs));
}
