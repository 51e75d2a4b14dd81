// The near end of the line to the transport's worker: questions and answers, credit, and what the other end reports.

import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkEvents } from "../../sink-events.ts";
import { Credit } from "./credit.ts";
import type { Answers, FromDelivery, LineEnvelope, Question, ToDelivery } from "./line-messages.ts";

interface Waiter {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Bytes of batches that the other end has not cut into requests. */
const maxUncreditedBytes = 10 * 1024 * 1024;
/** The same of incremental copies, which the stream does not wait for. */
const maxUncreditedIncrementalBytes = 4 * 1024 * 1024;

let lastSession = 0;

export class DeliveryClient {
  readonly #session = ++lastSession;
  readonly #answers = new Map<number, Waiter>();
  /** By chunk. */
  readonly #progress = new Map<number, (rows: number, bytes: number) => void>();
  readonly #receive: (event: Event) => void;
  readonly #abort: () => void;
  readonly credit: Credit;
  readonly incrementalCredit = new Credit(maxUncreditedIncrementalBytes);
  #lastId = 0;
  #error: unknown = null;

  constructor(
    private readonly line: MessagePort,
    private readonly signal: AbortSignal,
    private readonly events: SinkEvents,
    maxStreamBytes = maxUncreditedBytes,
  ) {
    this.credit = new Credit(maxUncreditedBytes, maxStreamBytes);
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

  /** Asks and waits for the answer. Rejects with what ended the session, or with why this cannot be done. */
  ask<T extends Question["type"]>(question: Extract<Question, { type: T }>): Promise<Answers[T]> {
    if (this.#error !== null) return Promise.reject(this.#error);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, { resolve: (answer) => resolve(answer as Answers[T]), reject });
      this.post({ ...question, id } as ToDelivery);
    });
  }

  /** Null: removes the listener. */
  onProgress(chunk: number, progress: ((rows: number, bytes: number) => void) | null): void {
    if (progress) this.#progress.set(chunk, progress);
    else this.#progress.delete(chunk);
  }

  /**
   * Lets what is under way end, waits for that at most `graceMs`, and leaves the line to the next session. It does not wait where the
   * signal has aborted everything.
   */
  async close(graceMs: number): Promise<void> {
    this.signal.removeEventListener("abort", this.#abort);
    const timeout = Promise.withResolvers<null>();
    const timer = setTimeout(timeout.resolve, this.signal.aborted ? 0 : graceMs, null);
    // A failure that is told meanwhile ends every question, but not the closing.
    const closed = this.#askToClose().catch(() => this.#askToClose());
    await Promise.race([closed, timeout.promise]);
    clearTimeout(timer);
    this.#end(new MillraceError("sink_connection_lost", "the sink is closed"));
    this.line.removeEventListener("message", this.#receive);
  }

  #askToClose(): Promise<null> {
    this.#error = null;
    return this.ask({ type: "close" });
  }

  #handle(message: FromDelivery): void {
    switch (message.type) {
      case "reply":
        this.#answers.get(message.id)?.resolve(message.answer);
        this.#answers.delete(message.id);
        return;
      case "refused":
        this.#answers.get(message.id)?.reject(new MillraceError(message.code, message.message));
        this.#answers.delete(message.id);
        return;
      case "credit":
        (message.isIncremental ? this.incrementalCredit : this.credit).give(message.bytes, message.chunk);
        return;
      case "durable":
        this.events.durable(message.checkpoint, message.rows, message.bytes);
        return;
      case "copy.progress":
        this.#progress.get(message.chunk)?.(message.rows, message.bytes);
        return;
      case "retrying":
        this.events.retrying(message.attempt, message.reason, message.inMs);
        return;
      case "warning":
        this.events.warning(message.topic, message.reason);
        return;
      case "changed":
        this.events.changed();
        return;
      case "awaits":
        this.events.awaits(message.lsn);
        return;
      case "failed":
        this.#fail(new MillraceError(message.code, message.message, { table: message.table }));
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
    this.incrementalCredit.end(error);
  }
}
