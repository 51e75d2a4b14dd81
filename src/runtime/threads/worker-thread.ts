// One worker thread and the seats in it: waits until it is ready, hands on what each seat says, notices its death, ends it.
// What is said is left to the callers.

import { MillraceError } from "../../errors/millrace-error.ts";
import type { FromThread, ToThread } from "./thread-messages.ts";

/** A run's line to its seat in a worker thread. */
export interface WorkerLine<To> {
  /** Resolves when the thread has said `ready`; rejects when it dies before, or does not get there in time. */
  readonly ready: Promise<void>;
  /** Resolves when the thread has ended without this line having asked for it. Never rejects. */
  readonly died: Promise<MillraceError>;
  post(message: To, transfer?: MessagePort[]): void;
  /**
   * Resolves when nothing of the seat goes on, and the thread is gone if nobody else sits in it. A seat that is not left in time takes
   * its thread with it: `graceMs` for one that is alone, longer where others would be taken along.
   */
  close(graceMs: number): Promise<void>;
}

/** What a seat says, and that its thread lives. */
export interface SeatEvents<From> {
  said(message: From): void;
  pulse(loopDelayMs: number): void;
}

interface Seat<From> {
  /** What the run calls its thread. */
  readonly name: string;
  readonly events: SeatEvents<From>;
  readonly died: PromiseWithResolvers<MillraceError>;
  readonly left: PromiseWithResolvers<void>;
}

/** How long a thread may take to load. */
const readyMs = 30_000;
/** How long a seat may take to be left where others sit in the thread, who may keep it busy. */
const sharedGraceMs = 5_000;

export class WorkerThread<To, From> {
  /** Resolves, when it is gone, with the names of those who may be to blame; none: it ended as it was told to. Never rejects. */
  readonly gone: Promise<readonly string[]>;
  readonly #worker: Worker;
  readonly #seats = new Map<number, Seat<From>>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<readonly string[]>();
  #isReady = false;
  #isGone = false;
  #isEnding = false;
  #lastSeat = 0;
  #lastError: string | null = null;
  /** Who has to be ended with the thread. */
  #stuck: Seat<From> | null = null;

  constructor(url: URL, name: string) {
    this.gone = this.#gone.promise;
    this.#worker = new Worker(url, { name });
    const late = new MillraceError("internal", `The worker thread ${name} did not become ready.`);
    const timer = setTimeout(() => this.#ready.reject(late), readyMs);
    this.#ready.promise.catch(() => {}).finally(() => clearTimeout(timer));
    this.#worker.onmessage = ({ data }: MessageEvent<FromThread<From>>) => this.#hear(data);
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      this.#lastError = event.message;
    };
    this.#worker.addEventListener("close", () => this.#end());
  }

  get seats(): number {
    return this.#seats.size;
  }

  /** Nobody may sit down any more. */
  get isEnding(): boolean {
    return this.#isEnding;
  }

  sit(name: string, events: SeatEvents<From>): WorkerLine<To> {
    const number = ++this.#lastSeat;
    const died = Promise.withResolvers<MillraceError>();
    const seat = { name, events, died, left: Promise.withResolvers<void>() };
    this.#seats.set(number, seat);
    let isClosed = false;
    return {
      ready: this.#ready.promise,
      died: died.promise,
      post: (message, transfer = []) => {
        // A late answer would open the seat anew.
        if (!isClosed) this.#post({ type: "say", seat: number, message }, transfer);
      },
      close: async (graceMs) => {
        isClosed = true;
        await this.#leave(number, seat, graceMs);
      },
    };
  }

  async #leave(number: number, seat: Seat<From>, graceMs: number): Promise<void> {
    // Terminating a thread that is still loading has crashed Bun: let it load first, within the bound.
    if (!this.#isReady) await Promise.race([this.#ready.promise.catch(() => {}), this.gone]);
    this.#post({ type: "leave", seat: number });
    const left = Promise.race([seat.left.promise, this.gone]);
    const isStuck = async () =>
      (await isLate(left, graceMs)) && (this.#seats.size === 1 || (await isLate(left, sharedGraceMs)));
    if (await isStuck()) return await this.#terminate(seat);
    this.#seats.delete(number);
    if (this.#seats.size > 0 || this.#isGone) return;
    this.#isEnding = true;
    this.#post({ type: "exit" });
    if (await isLate(this.gone, graceMs)) await this.#terminate(seat);
  }

  /** Whatever the seat still does must not go on behind the end of its run. */
  async #terminate(seat: Seat<From>): Promise<void> {
    this.#isEnding = true;
    this.#stuck ??= seat;
    this.#worker.terminate();
    await this.gone;
  }

  #post(message: ToThread<To>, transfer: MessagePort[] = []): void {
    if (!this.#isGone) this.#worker.postMessage(message, transfer);
  }

  #hear(message: FromThread<From>): void {
    switch (message.type) {
      case "ready":
        this.#isReady = true;
        this.#ready.resolve();
        break;
      case "said":
        this.#seats.get(message.seat)?.events.said(message.message);
        break;
      case "left":
        this.#seats.get(message.seat)?.left.resolve();
        break;
      case "pulse":
        for (const { events } of this.#seats.values()) events.pulse(message.loopDelayMs);
        break;
      default:
        message satisfies never;
    }
  }

  #end(): void {
    this.#isGone = true;
    this.#isEnding = true;
    const seats = [...this.#seats.values()];
    for (const seat of seats) seat.died.resolve(this.#causeOfDeath(seat));
    this.#ready.reject(new MillraceError("internal", "The worker thread ended before it was ready."));
    this.#gone.resolve((this.#stuck ? [this.#stuck] : seats).map(({ name }) => name));
  }

  #causeOfDeath({ name }: Seat<From>): MillraceError {
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

/** Bun tells an error as for a terminal, source lines included: clients get its sentence, the log all of it. */
function failure(name: string, told: string): MillraceError {
  const lines = Bun.stripANSI(told).split("\n");
  const sentence = lines.find((line) => /^(?:\w*error|uncaught exception)\b.*: /i.test(line)) ?? lines[0];
  const cause = Object.assign(new Error(sentence), { stack: told });
  return new MillraceError("internal", `The worker thread ${name} failed: ${sentence}`, { cause });
}
