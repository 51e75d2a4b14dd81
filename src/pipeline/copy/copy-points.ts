// The snapshot points that copies read as of, one after the other. A point keeps vacuum from removing rows that died since, so none is used for
// long: after some time new reads get another point, and the old one is released when its last read ends.

import type { SnapshotPoint } from "../../source/table-source.ts";

export interface Renewal {
  /** Takes another point, until nobody needs one. */
  readonly next: (stop: AbortSignal) => Promise<SnapshotPoint>;
  /** How long a point is used before the next one is taken. */
  readonly afterMs: number;
}

interface UsedPoint {
  readonly point: SnapshotPoint;
  since: number;
  users: number;
}

export class CopyPoints implements AsyncDisposable {
  #current: UsedPoint;
  #renewing: Promise<void> | null = null;
  readonly #closing = new AbortController();
  /** The point before the current one is still in use. There are never more than two. */
  #isFormerUsed = false;

  /** Takes `first` over. `renewal`: null where all copies read as of that, however long they take. */
  constructor(
    first: SnapshotPoint,
    private readonly renewal: Renewal | null,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {
    this.#current = { point: first, since: nowMs(), users: 0 };
  }

  /** Runs `work` with a point, which stays open until `work` ends. */
  async use<T>(work: (point: SnapshotPoint) => Promise<T>): Promise<T> {
    this.#renew();
    const used = this.#current;
    used.users++;
    try {
      return await work(used.point);
    } finally {
      used.users--;
      if (used !== this.#current) await this.#release(used);
    }
  }

  /** Reads go on as of the old point while the next one is awaited: that may take as long as somebody's open transaction. */
  #renew(): void {
    const { renewal } = this;
    if (renewal === null || this.#renewing || this.#isFormerUsed) return;
    if (this.nowMs() - this.#current.since < renewal.afterMs) return;
    this.#renewing = renewal
      .next(this.#closing.signal)
      .then((point) => this.#follow(point))
      .catch(() => {
        // Try again later: the transaction that delays the point keeps vacuum from working as well.
        this.#current.since = this.nowMs();
      })
      .finally(() => {
        this.#renewing = null;
      });
  }

  async #follow(point: SnapshotPoint): Promise<void> {
    if (this.#closing.signal.aborted) return await point[Symbol.asyncDispose]();
    const before = this.#current;
    this.#current = { point, since: this.nowMs(), users: 0 };
    this.#isFormerUsed = true;
    await this.#release(before);
  }

  async #release({ point, users }: UsedPoint): Promise<void> {
    if (users > 0) return;
    await point[Symbol.asyncDispose]();
    this.#isFormerUsed = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("no more points are needed"));
    await this.#renewing;
    await this.#release(this.#current);
  }
}
