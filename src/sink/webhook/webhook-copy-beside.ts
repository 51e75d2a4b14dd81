// A copy of a table that goes to a webhook while the stream does, as the pipeline sees it. Which of its rows go out, and with what
// version, is decided at the other end: beside-copies.ts.

import type { PageRange } from "../../change/page-range.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { CopyBeside, CopyRequest, SettledPiece } from "../sink.ts";
import type { SinkLine } from "./sink-line.ts";

export class WebhookCopyBeside implements CopyBeside {
  readonly form = "text";
  readonly takesAfterPoint = true;

  constructor(
    private readonly line: SinkLine,
    private readonly number: number,
    private readonly stop: AbortSignal,
  ) {}

  /** What is delivered of a copy that dies is not known. */
  async divide(): Promise<readonly PageRange[]> {
    return [];
  }

  /** Returns when the rows are delivered. */
  async take(request: CopyRequest): Promise<void> {
    this.#requireUnspoiled(await this.#unlessStopped(this.line.copy(request, "", this.number)));
  }

  /** A receiver cannot be asked for what it has. */
  async compare(): Promise<void> {}

  async settle(): Promise<SettledPiece> {
    const asked = this.line.client.ask({ type: "beside.settle", beside: this.number });
    const state = await this.#unlessStopped(asked);
    this.#requireUnspoiled(state?.spoiledBy ?? null);
    const { keys = [], isMore = false } = state?.settled ?? {};
    return { isMore, isHeld: false, owed: keys };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.line.client.post({ type: "beside.end", beside: this.number });
  }

  #requireUnspoiled(reason: string | null): void {
    if (reason !== null) throw new MillraceError("table_changed", reason);
  }

  /** A receiver may take as long as it likes. */
  async #unlessStopped<T>(promise: Promise<T>): Promise<T> {
    const { stop } = this;
    promise.catch(() => {});
    stop.throwIfAborted();
    const stopped = Promise.withResolvers<never>();
    const end = () => stopped.reject(stop.reason);
    stop.addEventListener("abort", end, { once: true });
    try {
      return await Promise.race([promise, stopped.promise]);
    } finally {
      stop.removeEventListener("abort", end);
    }
  }
}
