// One worker thread and its assignments: waits until it is ready, passes messages on, notices its death, ends it. The
// callers know the messages.

import { MillraceError } from "../../errors/millrace-error.ts";
import type { FromThread, ToThread } from "./thread-messages.ts";

/** A run's channel to its assignment in a worker thread. */
export interface WorkerChannel<To> {
  /** Resolves when the thread has sent `ready`. Rejects when it dies earlier, or takes too long. */
  readonly ready: Promise<void>;
  /** Resolves when the thread has ended although this channel was not closed. Never rejects. */
  readonly died: Promise<MillraceError>;
  post(message: To, transfer?: MessagePort[]): void;
  /**
   * Resolves when nothing of the assignment goes on, and the thread is gone if it has no other assignment. An
   * assignment that does not stop in time is terminated with its thread: after `graceMs` if it is alone, later if
   * others would be terminated too.
   */
  close(graceMs: number): Promise<void>;
}

/** Messages of the assignment, and pulses of its thread. */
export interface WorkerEvents<From> {
  message(message: From): void;
  pulse(loopDelayMs: number): void;
}

interface Assignment<From> {
  /** What the run calls its thread. */
  readonly name: string;
  readonly events: WorkerEvents<From>;
  readonly died: PromiseWithResolvers<MillraceError>;
  readonly stopped: PromiseWithResolvers<void>;
}

/** How long a thread may take to load. */
const readyMs = 30_000;
/** How long an assignment may take to stop where others share the thread and may keep it busy. */
const sharedGraceMs = 5_000;

export class WorkerThread<To, From> {
  /** Resolves when the thread is gone, with the names of the suspects; empty: it ended as asked. Never rejects. */
  readonly gone: Promise<readonly string[]>;
  readonly #worker: Worker;
  readonly #assignments = new Map<number, Assignment<From>>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<readonly string[]>();
  #isReady = false;
  #isGone = false;
  #isEnding = false;
  #lastId = 0;
  #lastError: string | null = null;
  /** The assignment that could not be stopped: the thread is terminated because of it. */
  #stuck: Assignment<From> | null = null;

  constructor(url: URL, name: string) {
    this.gone = this.#gone.promise;
    this.#worker = new Worker(url, { name });
    const late = new MillraceError("internal", `The worker thread ${name} did not become ready.`);
    const timer = setTimeout(() => this.#ready.reject(late), readyMs);
    this.#ready.promise.catch(() => {}).finally(() => clearTimeout(timer));
    this.#worker.onmessage = ({ data }: MessageEvent<FromThread<From>>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      this.#lastError = event.message;
    };
    this.#worker.addEventListener("close", () => this.#onClose());
  }

  get assignmentCount(): number {
    return this.#assignments.size;
  }

  /** The thread takes no further assignment. */
  get isEnding(): boolean {
    return this.#isEnding;
  }

  assign(name: string, events: WorkerEvents<From>): WorkerChannel<To> {
    const id = ++this.#lastId;
    const died = Promise.withResolvers<MillraceError>();
    const assignment = { name, events, died, stopped: Promise.withResolvers<void>() };
    this.#assignments.set(id, assignment);
    let isClosed = false;
    return {
      ready: this.#ready.promise,
      died: died.promise,
      post: (message, transfer = []) => {
        // A late reply would create the assignment again.
        if (!isClosed) this.#post({ type: "message", assignment: id, message }, transfer);
      },
      close: async (graceMs) => {
        isClosed = true;
        await this.#stop(id, assignment, graceMs);
      },
    };
  }

  async #stop(id: number, assignment: Assignment<From>, graceMs: number): Promise<void> {
    // Terminating a thread that is still loading has crashed Bun: let it load first.
    if (!this.#isReady) await Promise.race([this.#ready.promise.catch(() => {}), this.gone]);
    this.#post({ type: "stop", assignment: id });
    const stopped = Promise.race([assignment.stopped.promise, this.gone]);
    const isStuck = async () =>
      (await isLate(stopped, graceMs)) &&
      (this.#assignments.size === 1 || (await isLate(stopped, sharedGraceMs)));
    if (await isStuck()) return await this.#terminate(assignment);
    this.#assignments.delete(id);
    if (this.#assignments.size > 0 || this.#isGone) return;
    this.#isEnding = true;
    this.#post({ type: "exit" });
    if (await isLate(this.gone, graceMs)) await this.#terminate(assignment);
  }

  /** Nothing of the assignment may go on after the end of its run. */
  async #terminate(assignment: Assignment<From>): Promise<void> {
    this.#isEnding = true;
    this.#stuck ??= assignment;
    this.#worker.terminate();
    await this.gone;
  }

  #post(message: ToThread<To>, transfer: MessagePort[] = []): void {
    if (!this.#isGone) this.#worker.postMessage(message, transfer);
  }

  #receive(message: FromThread<From>): void {
    switch (message.type) {
      case "ready":
        this.#isReady = true;
        this.#ready.resolve();
        break;
      case "message":
        this.#assignments.get(message.assignment)?.events.message(message.message);
        break;
      case "stopped":
        this.#assignments.get(message.assignment)?.stopped.resolve();
        break;
      case "pulse":
        for (const { events } of this.#assignments.values()) events.pulse(message.loopDelayMs);
        break;
      default:
        message satisfies never;
    }
  }

  #onClose(): void {
    this.#isGone = true;
    this.#isEnding = true;
    const assignments = [...this.#assignments.values()];
    for (const each of assignments) each.died.resolve(this.#causeOfDeath(each));
    this.#ready.reject(new MillraceError("internal", "The worker thread ended before it was ready."));
    this.#gone.resolve((this.#stuck ? [this.#stuck] : assignments).map(({ name }) => name));
  }

  #causeOfDeath({ name }: Assignment<From>): MillraceError {
    if (this.#lastError !== null) return failure(name, this.#lastError);
    const why = this.#stuck
      ? `was ended, as ${this.#stuck.name} could not be stopped in it`
      : "ended unasked";
    return new MillraceError("internal", `The worker thread ${name} ${why}.`);
  }
}

/** Whether `promise` takes longer than `boundMs`. */
async function isLate(promise: Promise<unknown>, boundMs: number): Promise<boolean> {
  let timer: Timer | undefined;
  const timeout = new Promise<true>((resolve) => {
    timer = setTimeout(() => resolve(true), boundMs);
  });
  try {
    return await Promise.race([promise.then(() => false), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Bun formats an error for a terminal, with source lines: clients get its first sentence, the log gets all of it. */
function failure(name: string, output: string): MillraceError {
  const lines = Bun.stripANSI(output).split("\n");
  const sentence = lines.find((line) => /^(?:\w*error|uncaught exception)\b.*: /i.test(line)) ?? lines[0];
  const cause = Object.assign(new Error(sentence), { stack: output });
  return new MillraceError("internal", `The worker thread ${name} failed: ${sentence}`, { cause });
}
