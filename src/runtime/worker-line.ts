// One worker thread and the line to it: waits until it is ready, hands on what it says, notices its death, ends it.
// What is said is left to the caller.

import { MillraceError } from "../errors/millrace-error.ts";

export interface WorkerLine<To> {
  /** Resolves when the worker has said `ready`; rejects when it dies before, or does not get there in time. */
  readonly ready: Promise<void>;
  /** Resolves when the worker has ended without being asked to. Never rejects. */
  readonly died: Promise<MillraceError>;
  post(message: To, transfer?: MessagePort[]): void;
  /** Waits up to `graceMs` for the worker to end by itself, then terminates it. */
  close(graceMs: number): Promise<void>;
}

/** How long a worker may take to load. */
const readyMs = 30_000;

export function openWorkerLine<To, From extends { readonly type: string }>(
  url: URL,
  name: string,
  receive: (message: Exclude<From, { readonly type: "ready" }>) => void,
): WorkerLine<To> {
  const worker = new Worker(url, { name });
  const ready = Promise.withResolvers<void>();
  const died = Promise.withResolvers<MillraceError>();
  const closed = Promise.withResolvers<void>();
  let lastError: string | null = null;
  let isReady = false;
  const timer = setTimeout(() => ready.reject(workerError(name, "did not become ready")), readyMs);
  ready.promise.catch(() => {}).finally(() => clearTimeout(timer));
  worker.onmessage = ({ data }: MessageEvent<From>) => {
    if (data.type !== "ready") return receive(data as Exclude<From, { readonly type: "ready" }>);
    isReady = true;
    ready.resolve();
  };
  worker.onerror = (event) => {
    event.preventDefault?.();
    lastError = event.message;
  };
  worker.addEventListener("close", () => {
    const error = lastError === null ? workerError(name, "ended unasked") : failure(name, lastError);
    died.resolve(error);
    ready.reject(error);
    closed.resolve();
  });
  return {
    ready: ready.promise,
    died: died.promise,
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    close: async (graceMs) => {
      // Terminating a thread that is still loading has crashed Bun: let it load first, within the bound.
      if (!isReady) await Promise.race([ready.promise.catch(() => {}), closed.promise]);
      const timedOut = await within(closed.promise, graceMs);
      if (timedOut) worker.terminate();
      await closed.promise;
    },
  };
}

/** Whether `promise` took longer than `boundMs`. */
async function within(promise: Promise<unknown>, boundMs: number): Promise<boolean> {
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

function workerError(name: string, what: string): MillraceError {
  return new MillraceError("internal", `The worker thread ${name} ${what}.`);
}
