// The snapshot points that copies read as of, one after the other. A point keeps vacuum from removing rows that died since, so none is used for
// long: after some time new reads get another point, and the old one is released when its last read ends.

import type { SnapshotPoint } from "../../source/table-source.ts";

export interface CopyPointsOptions {
  /** Takes another point, until nobody needs one; null: all copies read as of the first one, however long they take. */
  readonly next: ((stop: AbortSignal) => Promise<SnapshotPoint>) | null;
  /** How long a point is used before the next one is taken. */
  readonly renewAfterMs: number;
  readonly nowMs?: () => number;
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
  readonly #nowMs: () => number;

  /** Takes `first` over. */
  constructor(
    first: SnapshotPoint,
    private readonly options: CopyPointsOptions,
  ) {
    this.#nowMs = options.nowMs ?? performance.now.bind(performance);
    this.#current = { point: first, since: this.#nowMs(), users: 0 };
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
    const { next, renewAfterMs } = this.options;
    if (next === null || this.#renewing || this.#isFormerUsed) return;
    if (this.#nowMs() - this.#current.since < renewAfterMs) return;
    this.#renewing = next(this.#closing.signal)
      .then((point) => this.#follow(point))
      .catch(() => {
        // Try again later: the transaction that delays the point keeps vacuum from working as well.
        this.#current.since = this.#nowMs();
      })
      .finally(() => {
        this.#renewing = null;
      });
  }

  async #follow(point: SnapshotPoint): Promise<void> {
    if (this.#closing.signal.aborted) return await point[Symbol.asyncDispose]();
    const before = this.#current;
    this.#current = { point, since: this.#nowMs(), users: 0 };
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
