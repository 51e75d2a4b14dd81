// Tells the server what is durable: soon after it is, whenever the stream asks, and at the end of a run, where it waits until the server has
// heard it.
// https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-STANDBY-STATUS-UPDATE

import type { Lsn } from "../../../change/lsn.ts";

/** Soon, so that a restart reads little again; not at once, so that several acknowledgements share a message. */
const delayMs = 200;
/** A server that is busy decoding answers late; a stop does not wait for that. */
const answerMs = 1_000;
/** A server that moves by less between two answers has nothing more to decode. */
const stillBytes = 64n * 1024n;
const betweenMs = 50;

export class StandbyStatus {
  #timer: ReturnType<typeof setTimeout> | null = null;
  readonly #waiting = new Set<() => void>();

  constructor(
    private durable: Lsn,
    private readonly sendUpdate: (durable: Lsn, ping: boolean) => void,
  ) {}

  get acknowledged(): Lsn {
    return this.durable;
  }

  acknowledge(lsn: Lsn): void {
    if (lsn <= this.durable) return;
    this.durable = lsn;
    this.#timer ??= setTimeout(() => this.send(), delayMs);
  }

  /** `ping`: the server answers with its position. */
  send(ping = false): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.sendUpdate(this.durable, ping);
  }

  /** Sends, and resolves when the server has answered, so that it has what was sent; or when that takes long. */
  async ask(withinMs = answerMs): Promise<void> {
    this.send(true);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, withinMs));
      this.#waiting.add(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /**
   * Asks until the server has come to the end of its log, or for long enough. Returns the last `position` that was not null. Null means that
   * something has come which is not written: the position before it still holds. Null is returned where the first one is null.
   */
  async untilStill(position: () => Lsn | null): Promise<Lsn | null> {
    const deadline = performance.now() + answerMs;
    let last = position();
    while (last !== null) {
      await this.ask(deadline - performance.now());
      const next = position();
      if (next === null || next - last < stillBytes || performance.now() >= deadline) return next ?? last;
      last = next;
      await Bun.sleep(betweenMs);
    }
    return null;
  }

  /** The server has told its position. */
  answered(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** Sends for the last time. `isHeard`: returns when the server has it. */
  async end(isHeard: boolean): Promise<void> {
    if (isHeard) await this.ask();
    else this.send();
    this.answered();
  }
}
