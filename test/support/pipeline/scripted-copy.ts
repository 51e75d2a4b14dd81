// What copying a table needs of its surroundings, written down: for tests that need no server.

import { Semaphore } from "../../../src/concurrency/semaphore.ts";
import { type CopyEnvironment, waitingStream } from "../../../src/pipeline/copy/copy-environment.ts";
import { defaultCopyPace } from "../../../src/pipeline/copy/copy-pace.ts";
import type { CopyChunk, CopySink, TableCopy } from "../../../src/sink/copy-sink.ts";
import type { Source } from "../../../src/source/source.ts";
import type { MemorySource } from "./memory-source.ts";
import { unwatchedStates } from "./unwatched-states.ts";

export async function textOf({ chunks }: CopyChunk): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(new Uint8Array(chunk));
  return Buffer.concat(parts).toString();
}

/** A copy beside the stream that takes all it is given, and writes down what it is asked. */
export function scriptedCopy(log: string[], steps: Partial<TableCopy> = {}): TableCopy {
  return {
    stream: "runs",
    async start(isDivided) {
      log.push(`start${isDivided ? " divided" : ""}`);
      return { form: "text", ranges: isDivided ? { done: [], rows: 0 } : null };
    },
    async take(chunk) {
      await textOf(chunk);
      log.push("take");
    },
    async settle() {
      log.push("settle");
      return "all";
    },
    async finish() {
      log.push("finish");
      return "all";
    },
    async [Symbol.asyncDispose]() {
      log.push("dispose");
    },
    ...steps,
  };
}

/** A stream that has always come to where somebody waits for, and writes that down, as it does each stop between two batches. */
export function runningStream(
  log: string[],
): Pick<CopyEnvironment, "betweenBatches" | "passed" | "exactlyAt"> {
  return {
    async betweenBatches(action, signal) {
      signal.throwIfAborted();
      log.push("[");
      try {
        return await action();
      } finally {
        log.push("]");
      }
    },
    async passed(lsn, signal) {
      signal.throwIfAborted();
      log.push(`passed ${lsn}`);
    },
    async exactlyAt(place, action, signal) {
      signal.throwIfAborted();
      const at = await place();
      if (at === null) return null;
      log.push(`at ${at}`);
      return await action();
    },
  };
}

export function copyEnvironment(
  source: MemorySource,
  copies: Partial<CopySink>,
  change: Partial<CopyEnvironment> = {},
): CopyEnvironment {
  const { parallel = 2 } = change;
  return {
    source: source as unknown as Source,
    sink: { copies: copies as CopySink, flush: async () => {} },
    states: unwatchedStates,
    pace: defaultCopyPace,
    permits: new Semaphore(parallel),
    ...waitingStream,
    ...change,
    parallel,
  };
}
