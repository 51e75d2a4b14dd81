// Tracks how far the server's log has come: as the server tells in the stream, and as another connection sees it. A server with a backlog to
// send does not tell the end before all is sent, and one that waits for its standbys tells, for however long, the place where it waits.

import type { Lsn } from "../../../change/lsn.ts";

/** A server that is not busy with a backlog tells the end of its log more often than this. */
const staleMs = 1_000;
/** A server sends at once what is flushed. One that has sent nothing for so long, though its log goes on, waits for something. */
const standsStillMs = 10_000;

export class LogEnd {
  /**
   * The server has sent nothing for a while, though its log goes on. Each look over another connection sets it. It stays until the next look, so
   * that one more look is made after the standstill has ended.
   */
  standsStill = false;
  #toldAtMs: number;
  /** What a look saw beyond what the server had sent; null: nothing. */
  #unsent: { readonly end: Lsn; readonly sinceMs: number } | null = null;

  constructor(
    /** Everything before it was sent, as far as the server has told. */
    public told: Lsn,
    /** The end, as far as it is known. */
    public known: Lsn,
    private readonly nowMs: () => number = () => performance.now(),
  ) {
    this.#toldAtMs = nowMs();
  }

  /** By the server, in the stream. */
  tells(at: Lsn): void {
    if (at > this.told) this.told = at;
    if (at > this.known) this.known = at;
    this.#toldAtMs = this.nowMs();
  }

  /** Over another connection, when everything before `resumeLsn` had come. */
  seen(at: Lsn, resumeLsn: Lsn): void {
    if (at > this.known) this.known = at;
    if (!this.isUnsent(resumeLsn))
      this.#unsent = at > this.#sent(resumeLsn) ? { end: at, sinceMs: this.nowMs() } : null;
    this.standsStill = this.#unsent !== null && this.nowMs() - this.#unsent.sinceMs >= standsStillMs;
  }

  /** Whether the server has yet to send something that a look has seen. */
  isUnsent(resumeLsn: Lsn): boolean {
    return this.#unsent !== null && this.#unsent.end > this.#sent(resumeLsn);
  }

  /** The server has not told of its log for a while. */
  get isStale(): boolean {
    return this.nowMs() - this.#toldAtMs > staleMs;
  }

  #sent(resumeLsn: Lsn): Lsn {
    return resumeLsn > this.told ? resumeLsn : this.told;
  }
}
