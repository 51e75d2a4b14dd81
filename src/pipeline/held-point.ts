// Points of the source that are taken while the stream waits, so that it has not passed them. Taking a point waits for the transactions that
// are open at the source. So the stream waits for a bounded time only, and goes on before the next attempt.

import { MillraceError } from "../errors/millrace-error.ts";
import type { SnapshotPoint, TableSource } from "../source/table-source.ts";
import type { CopyEnvironment } from "./copy/copy-environment.ts";

/** How long the stream waits in each attempt. A source that gives up a point throws, which would end the attempts: so each is shorter than that. */
export const holdsMs: readonly number[] = [250, 1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000];

interface PointsOfStream extends Pick<CopyEnvironment, "exactlyAt"> {
  readonly source: Pick<TableSource, "snapshotPoint">;
}

/**
 * Calls `action` once the stream stands exactly at a point, and returns what it returns. `held` has the point, and releases it after that; who
 * moves it keeps the point. Between two attempts it waits for open transactions of the source, while the stream goes on. Throws
 * `slot_creation_blocked` in the end, or when a transaction is open for longer than the source waits.
 */
export async function atHeldPoint<T>(
  { source, exactlyAt }: PointsOfStream,
  signal: AbortSignal,
  action: (point: SnapshotPoint, held: AsyncDisposableStack) => Promise<T>,
  holds = holdsMs,
): Promise<T> {
  for (const holdMs of holds) {
    await using held = new AsyncDisposableStack();
    const taken: { point: SnapshotPoint | null } = { point: null };
    const place = async () => {
      taken.point = held.use(await takeWithin(source, signal, holdMs));
      return taken.point?.lsn ?? null;
    };
    const result = await exactlyAt(place, () => action(taken.point!, held), signal);
    if (taken.point !== null) return result as T;
    await (await source.snapshotPoint(signal))[Symbol.asyncDispose]();
  }
  throw new MillraceError(
    "slot_creation_blocked",
    `No point of the source could be had within ${(holds.at(-1) ?? 0) / 1000} s: transactions that write are open there for longer. ` +
      "SELECT pid, xact_start FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start shows them.",
  );
}

async function takeWithin(
  source: Pick<TableSource, "snapshotPoint">,
  signal: AbortSignal,
  holdMs: number,
): Promise<SnapshotPoint | null> {
  const late = AbortSignal.timeout(holdMs);
  try {
    return await source.snapshotPoint(AbortSignal.any([signal, late]));
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted) return null;
    throw error;
  }
}
