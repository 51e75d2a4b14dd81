// Publishes tables in spite of locks: tables that are published already do not wait for one that somebody has locked.

import type { TableShape } from "../change/relation.ts";
import { untilAborted } from "../concurrency/until-aborted.ts";
import { type MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { PreparedTables } from "../sink/sink.ts";
import type { Source } from "../source/source.ts";

/** How long to wait before a locked table is tried again. */
const lockedRetryMs = 1_000;

/** Returns the error if a table is locked, so that nothing was published; null: all are published. */
async function publishUnlessLocked(source: Source): Promise<MillraceError | null> {
  try {
    await source.publish();
    return null;
  } catch (error) {
    const failure = toMillraceError(error);
    if (failure.code !== "table_locked") throw error;
    return failure;
  }
}

/** Waits until no table is locked: a new connector has nothing else to do. Calls `waits` with the reason. Throws the reason of `stop`. */
export async function publishWhenUnlocked(
  source: Source,
  stop: AbortSignal,
  waits: (reason: string) => void,
): Promise<void> {
  while (true) {
    const locked = await publishUnlessLocked(source);
    if (locked === null) return;
    waits(locked.message);
    await untilAborted(Bun.sleep(lockedRetryMs), stop);
  }
}

/** Publishes, and asks for another call some time later if a table is locked. */
export class PublishedWhenUnlocked implements Disposable {
  #retry: Timer | undefined;

  constructor(private readonly again: () => void) {}

  /** Returns why nothing was published now, and whether that was so before. */
  async publish(
    source: Source,
  ): Promise<{ readonly locked: MillraceError | null; readonly wasLocked: boolean }> {
    const locked = await publishUnlessLocked(source);
    const wasLocked = this.#retry !== undefined;
    // One retry waits at a time. The stream stands while it waits for the lock: several would leave the stream no time.
    clearTimeout(this.#retry);
    this.#retry = locked === null ? undefined : setTimeout(this.again, lockedRetryMs);
    return { locked, wasLocked };
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#retry);
  }
}

export function isUnpublished({ coverage }: TableShape): boolean {
  return coverage?.isUnpublished === true;
}

/** Tables that were read before, as they are once the source publishes them. `locked`: why it does not yet; null: it does. */
export function asPublished(
  tables: readonly TableShape[],
  locked: MillraceError | null,
): readonly TableShape[] {
  if (locked !== null) return tables;
  return tables.map((table) =>
    table.coverage ? { ...table, coverage: { ...table.coverage, isUnpublished: false } } : table,
  );
}

/**
 * The missing tables that can be copied while others are still to be published. An unpublished one cannot: changes after its copy would be missed.
 * Neither can one whose rows may refer to its rows.
 */
export function withoutUnpublished({ missing, isOrdered = false }: PreparedTables): readonly TableShape[] {
  const first = missing.findIndex(isUnpublished);
  if (isOrdered && first >= 0) return missing.slice(0, first);
  return missing.filter((table) => !isUnpublished(table));
}
