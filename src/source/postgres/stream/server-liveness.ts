// Detects whether a stream's server is still alive. It pings a silent server, and checks the walsender over another
// connection before it gives the server up. What a silence means is decided in feedback.ts.

import { MillraceError } from "../../../errors/millrace-error.ts";
import { type Liveness, liveness, silenceLimitMs } from "./feedback.ts";

/** A check that found the walsender at work counts for so long. */
const workingMs = 15_000;

export class ServerLiveness implements Disposable {
  readonly #limitMs: number;
  #hasReceived = true;
  #receivedAt: number;
  #workedAt = Number.NEGATIVE_INFINITY;
  #watching: Disposable | null = null;

  /**
   * `watch` checks the walsender over another connection, and calls `works` whenever that is at work; null: there is no connection to check yet.
   */
  constructor(
    walSenderTimeoutMs: number,
    private readonly watch: (works: () => void) => Disposable | null,
    private readonly nowMs: () => number = performance.now.bind(performance),
  ) {
    this.#limitMs = silenceLimitMs(walSenderTimeoutMs);
    this.#receivedAt = nowMs();
  }

  /** Bytes came from the server. */
  readonly received = (): void => {
    this.#hasReceived = true;
  };

  /** To be called at intervals. `isPaused`: the stream's socket is not being read. */
  check(isPaused: boolean): Liveness {
    const now = this.nowMs();
    if (this.#hasReceived || isPaused) this.#receivedAt = now;
    this.#hasReceived = false;
    const isWorking = now - this.#workedAt < workingMs;
    const verdict = liveness(now - this.#receivedAt, this.#limitMs, !isPaused, isWorking);
    if (verdict === "probe") this.#watching ??= this.watch(this.#works);
    else this[Symbol.dispose]();
    return verdict;
  }

  readonly #works = (): void => {
    this.#workedAt = this.nowMs();
  };

  /** The failure of a server that is `dead`. */
  get failure(): MillraceError {
    const seconds = Math.round(this.#limitMs / 1000);
    return new MillraceError("source_connection_lost", `The source has been silent for ${seconds} s.`);
  }

  [Symbol.dispose](): void {
    this.#watching?.[Symbol.dispose]();
    this.#watching = null;
  }
}
