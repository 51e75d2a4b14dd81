// The rounds of a connector that copies everything, once or on a schedule: when one is due, and the durable record of
// its progress. The round loop makes them.

import { nextDue, type Schedule } from "../../connector/config/schedule.ts";
import type { StoredConnector } from "../../state/stores/connector-store.ts";

/**
 * Records rounds durably. Each call throws when the run is no longer the connector's current one, or the store does not
 * answer.
 */
export interface RoundRecords {
  begin(at: Date): Promise<void>;
  end(at: Date): Promise<void>;
}

export class SnapshotRounds {
  readonly #schedule: Schedule | null;
  #begunAt: Date | null;
  #endedAt: Date | null;
  /** The current round could not be made; the schedule brings another. */
  #failedAt: Date | null = null;

  constructor(
    { config, roundBegunAt, roundEndedAt }: Pick<StoredConnector, "config" | "roundBegunAt" | "roundEndedAt">,
    private readonly records: RoundRecords,
    private readonly nowMs: () => number,
  ) {
    this.#schedule = config.schedule;
    this.#begunAt = roundBegunAt;
    this.#endedAt = roundEndedAt;
  }

  /** Whether further rounds are scheduled. */
  get isScheduled(): boolean {
    return this.#schedule !== null;
  }

  /**
   * When the next round is due. A time in the past means now, however many rounds were missed. Null: none is scheduled.
   * Rounds are scheduled from their beginnings and never overlap: one that took too long is followed at once. If the
   * clock was set back, times in the future count from now.
   */
  whenDue(): Date | null {
    const now = this.#now();
    if (this.#begunAt !== null && this.#begunAt > now) this.#begunAt = now;
    if (this.#failedAt !== null && this.#failedAt > now) this.#failedAt = now;
    if (this.#failedAt !== null) return this.#after(this.#failedAt);
    if (this.#begunAt === null || this.#endedAt === null) return new Date(0);
    return this.#after(this.#begunAt);
  }

  /**
   * Whether a new round begins; false: the current one is continued. A failed round is made again from the start: its
   * copies have aged, and may be gone from the sink. Durable on return.
   */
  async begin(): Promise<boolean> {
    const isUnderWay = this.#begunAt !== null && this.#endedAt === null;
    if (isUnderWay && this.#failedAt === null) return false;
    const at = this.#now();
    await this.records.begin(at);
    this.#failedAt = null;
    this.#begunAt = at;
    this.#endedAt = null;
    return true;
  }

  /** The round is complete. Durable on return. */
  async end(): Promise<void> {
    const at = this.#now();
    await this.records.end(at);
    this.#endedAt = at;
  }

  /** Somebody has to fix something first. The current round is given up; the next one comes when it is due. */
  fail(): void {
    if (this.#begunAt === null || this.#endedAt === null) this.#failedAt = this.#now();
  }

  #after(time: Date): Date | null {
    return this.#schedule && nextDue(this.#schedule, time);
  }

  #now(): Date {
    return new Date(this.nowMs());
  }
}
