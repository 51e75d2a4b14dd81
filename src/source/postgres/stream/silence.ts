// Whether the server of a stream is still there: noticed by its silence, and looked after over another connection before it is given
// up. What a silence means is decided in feedback.ts.

import { MillraceError } from "../../../errors/millrace-error.ts";
import { type Liveness, liveness, silenceLimitMs } from "./feedback.ts";

export class Silence implements Disposable {
  readonly #limitMs: number;
  #heard = true;
  #heardAt = performance.now();
  #watching: Disposable | null = null;

  /** `watch` looks over another connection whether the walsender has anything to say; null: there is nothing to look at yet. */
  constructor(
    walSenderTimeoutMs: number,
    private readonly watch: () => Disposable | null,
  ) {
    this.#limitMs = silenceLimitMs(walSenderTimeoutMs);
  }

  /** Something came. */
  readonly hear = (): void => {
    this.#heard = true;
  };

  /** To be called at intervals. `isPaused`: the stream is not being read. */
  look(isPaused: boolean): Liveness {
    const now = performance.now();
    if (this.#heard || isPaused) this.#heardAt = now;
    this.#heard = false;
    const verdict = liveness(now - this.#heardAt, this.#limitMs, !isPaused);
    if (verdict === "look") this.#watching ??= this.watch();
    else this[Symbol.dispose]();
    return verdict;
  }

  /** Of a server that is `dead`. */
  get failure(): MillraceError {
    const seconds = Math.round(this.#limitMs / 1000);
    return new MillraceError("source_connection_lost", `The source has been silent for ${seconds} s.`);
  }

  [Symbol.dispose](): void {
    this.#watching?.[Symbol.dispose]();
    this.#watching = null;
  }
}
