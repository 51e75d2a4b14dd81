// The consistent points that copies are made as of, one after the other. A point keeps the source from clearing away rows that are
// dead since, so that none is held for long: when one has been held for its time, what begins from then on gets another, and the old
// one goes with the last copy that was made as of it.

import type { SnapshotPoint } from "../../source/source.ts";

export interface CopyPointsOptions {
  /** Takes another point; null: the first is for all copies, however long they take. */
  readonly next: (() => Promise<SnapshotPoint>) | null;
  /** For how long copies may begin as of a point. */
  readonly heldMs: number;
  readonly nowMs?: () => number;
}

interface Held {
  readonly point: SnapshotPoint;
  since: number;
  users: number;
}

export class CopyPoints implements AsyncDisposable {
  #current: Held;
  #renewing: Promise<void> | null = null;
  #isClosed = false;
  /** A point before the current one that copies are still made as of: beside two there is no third. */
  #isFormerHeld = false;
  readonly #nowMs: () => number;

  /** Takes `first` over. */
  constructor(
    first: SnapshotPoint,
    private readonly options: CopyPointsOptions,
  ) {
    this.#nowMs = options.nowMs ?? performance.now.bind(performance);
    this.#current = { point: first, since: this.#nowMs(), users: 0 };
  }

  /** There is but one point. */
  get isOnlyOne(): boolean {
    return this.options.next === null;
  }

  /** `work` reads as of the point, which is held until it ends. */
  async use<T>(work: (point: SnapshotPoint) => Promise<T>): Promise<T> {
    this.#renew();
    const held = this.#current;
    held.users++;
    try {
      return await work(held.point);
    } finally {
      held.users--;
      if (held !== this.#current) await this.#letGo(held);
    }
  }

  /** While another point is waited for, which may take as long as somebody's transaction, copies go on as of the old one. */
  #renew(): void {
    const { next, heldMs } = this.options;
    if (next === null || this.#renewing || this.#isFormerHeld) return;
    if (this.#nowMs() - this.#current.since < heldMs) return;
    this.#renewing = next()
      .then((point) => this.#follow(point))
      .catch(() => {
        // It cannot be had now: whoever holds it up keeps the source from clearing away as well.
        this.#current.since = this.#nowMs();
      })
      .finally(() => {
        this.#renewing = null;
      });
  }

  async #follow(point: SnapshotPoint): Promise<void> {
    if (this.#isClosed) return await point[Symbol.asyncDispose]();
    const before = this.#current;
    this.#current = { point, since: this.#nowMs(), users: 0 };
    this.#isFormerHeld = true;
    await this.#letGo(before);
  }

  async #letGo({ point, users }: Held): Promise<void> {
    if (users > 0) return;
    await point[Symbol.asyncDispose]();
    this.#isFormerHeld = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await this.#renewing;
    await this.#letGo(this.#current);
  }
}
