// How many rows of a table's copy may be on their way: shared by the ranges that are copied side by side.

/** What is waited for is some room, and not room for one row after the other. */
const freedShare = 0.25;

export class UndeliveredRows {
  /** Rows that are taken and not delivered. */
  #rows = 0;
  /** Requests on their way. */
  #requests = 0;
  #isClosed = false;
  #waiters: (() => void)[] = [];

  /** `most` rows; infinite: no bound. */
  constructor(private readonly most: number) {}

  get isFull(): boolean {
    return this.#rows >= this.most;
  }

  /** Rows that may be taken now. */
  get left(): number {
    return this.most - this.#rows;
  }

  took(): void {
    this.#rows++;
  }

  sent(): void {
    this.#requests++;
  }

  delivered(rows: number): void {
    this.#requests--;
    this.#rows -= rows;
    this.#wake();
  }

  /** These rows are not sent any more. */
  dropped(rows: number): void {
    this.#rows -= rows;
    this.#wake();
  }

  /** Nothing is delivered any more: nobody waits. */
  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  /** A request holds no more rows than may be on their way: while there is no room, one is being delivered. */
  async ample(): Promise<void> {
    const most = this.most * (1 - freedShare);
    while (this.#rows > most && this.#requests > 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }
}
