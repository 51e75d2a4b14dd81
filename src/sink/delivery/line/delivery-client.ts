// The near end of the line to the webhook worker: questions and answers, credit, and what the other end
// reports. Knows nothing of changes; webhook-sink.ts does.

import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkEvents } from "../../sink.ts";
import { Credit } from "./credit.ts";
import type { DeliveryState, FromDelivery, LineEnvelope, ToDelivery } from "./line-messages.ts";

/** A message without what the client adds. */
export type Question = ToDelivery extends infer M
  ? M extends { id: number }
    ? Omit<M, "id">
    : never
  : never;

interface Waiter {
  readonly resolve: (state: DeliveryState | null) => void;
  readonly reject: (error: unknown) => void;
}

/** Bytes of batches that the other end has not cut into requests. */
const maxUncreditedBytes = 10 * 1024 * 1024;
/** The same of copies beside the stream, which does not wait for them. */
const maxUncreditedBesideBytes = 4 * 1024 * 1024;

let lastSession = 0;

export class DeliveryClient {
  readonly #session = ++lastSession;
  readonly #answers = new Map<number, Waiter>();
  readonly #copyProgress = new Map<number, (rows: number, bytes: number) => void>();
  readonly #receive: (event: Event) => void;
  readonly #abort: () => void;
  readonly credit = new Credit(maxUncreditedBytes);
  readonly creditBeside = new Credit(maxUncreditedBesideBytes);
  #lastId = 0;
  #error: unknown = null;

  constructor(
    private readonly line: MessagePort,
    private readonly signal: AbortSignal,
    private readonly events: SinkEvents,
  ) {
    this.#receive = (event) => {
      const { session, message } = (event as MessageEvent).data as LineEnvelope<FromDelivery>;
      if (session === this.#session) this.#handle(message);
    };
    this.#abort = () => this.#end(signal.reason);
    line.addEventListener("message", this.#receive);
    line.start();
    signal.addEventListener("abort", this.#abort, { once: true });
    if (signal.aborted) this.#abort();
  }

  post(message: ToDelivery, transfer: ArrayBuffer[] = []): void {
    const envelope: LineEnvelope<ToDelivery> = { session: this.#session, message };
    this.line.postMessage(envelope, transfer);
  }

  /** Asks and waits for the answer. Rejects with what ended the session. */
  ask(question: Question): Promise<DeliveryState | null> {
    if (this.#error !== null) return Promise.reject(this.#error);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, { resolve, reject });
      this.post({ ...question, id } as ToDelivery);
    });
  }

  /** Null: nobody listens any more. */
  onCopyProgress(copy: number, progress: ((rows: number, bytes: number) => void) | null): void {
    if (progress) this.#copyProgress.set(copy, progress);
    else this.#copyProgress.delete(copy);
  }

  /**
   * Lets what is under way come to its end, waits for that at most `graceMs`, and leaves the line to the
   * next session. Where everything is broken off, it does not wait.
   */
  async close(graceMs: number): Promise<void> {
    this.signal.removeEventListener("abort", this.#abort);
    this.#error = null;
    const timeout = Promise.withResolvers<null>();
    const timer = setTimeout(timeout.resolve, this.signal.aborted ? 0 : graceMs, null);
    await Promise.race([this.ask({ type: "close" }), timeout.promise]);
    clearTimeout(timer);
    this.#end(new MillraceError("sink_connection_lost", "the webhook sink is closed"));
    this.line.removeEventListener("message", this.#receive);
  }

  #handle(message: FromDelivery): void {
    switch (message.type) {
      case "reply":
        this.#answers.get(message.id)?.resolve(message.state);
        this.#answers.delete(message.id);
        return;
      case "credit":
        (message.isBeside ? this.creditBeside : this.credit).give(message.bytes, message.copy);
        return;
      case "durable":
        this.events.durable(message.checkpoint, message.rows, message.bytes);
        return;
      case "copy.progress":
        this.#copyProgress.get(message.copy)?.(message.rows, message.bytes);
        return;
      case "retrying":
        this.events.retrying(message.attempt, message.reason);
        return;
      case "due":
        this.events.mended();
        return;
      case "awaits":
        this.events.awaits(message.lsn);
        return;
      case "failed":
        this.#fail(new MillraceError(message.code, message.message));
        return;
      default:
        message satisfies never;
    }
  }

  #fail(error: MillraceError): void {
    this.#end(error);
    this.events.failed(error);
  }

  #end(error: unknown): void {
    this.#error ??= error;
    for (const waiter of this.#answers.values()) waiter.reject(error);
    this.#answers.clear();
    this.credit.end(error);
    this.creditBeside.end(error);
  }
}
