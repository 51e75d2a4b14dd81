// The rounds of a connector that copies everything, once or on a schedule: which one is due, and the record of how far they
// are. Making a round is the run loop's.

import { nextDue, type Schedule } from "../../connector/config/schedule.ts";
import type { StoredConnector } from "../../state/stores/connector-store.ts";

/** What is durable of a connector's rounds. Each throws when the run is no longer the connector's, or cannot be reached. */
export interface RoundRecords {
  begin(at: Date): Promise<void>;
  end(at: Date): Promise<void>;
}

export class SnapshotRounds {
  readonly #schedule: Schedule | null;
  #begunAt: Date | null;
  #endedAt: Date | null;
  /** The round that is under way could not be made; the schedule brings another. */
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

  /** Whether other rounds come by themselves. */
  get isScheduled(): boolean {
    return this.#schedule !== null;
  }

  /**
   * When to copy next; a time that has passed means now, however often it was missed. Null: not by itself. Rounds are counted
   * from their beginnings, and never overlap: one that took too long is followed at once. Where the clock was set back, what
   * would lie in the future is counted from here on.
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
   * Whether a round begins; one that is under way goes on. One that failed is made anew: what it has copied is as old as it is, and
   * may be gone with the sink. Durable on return.
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

  /** Everything is copied. Durable on return. */
  async end(): Promise<void> {
    const at = this.#now();
    await this.records.end(at);
    this.#endedAt = at;
  }

  /** The work cannot be done before somebody has mended something. A round that is under way is put off; another comes when it is due. */
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
