// What copies need of their run: source and sink, how much may be done at once, and the stream's position.

import type { Lsn } from "../../change/lsn.ts";
import { Semaphore } from "../../concurrency/semaphore.ts";
import type { Sink } from "../../sink/sink.ts";
import type { Source } from "../../source/source.ts";
import type { SnapshotPoint } from "../../source/table-source.ts";
import type { StreamEvents } from "../stream-events.ts";
import type { CopyStates } from "../table-states.ts";
import type { CopyPace } from "./copy-pace.ts";
import { CopyPoints, type Renewal } from "./copy-points.ts";

export interface CopyEnvironment {
  readonly source: Source;
  readonly sink: Pick<Sink, "copies" | "flush" | "verification" | "replays">;
  /** Hears how far the table of each copy has come. */
  readonly states: CopyStates;
  readonly pace: CopyPace;
  /** How many tables, and chunks of one table, are copied at once at most. */
  readonly parallel: number;
  /** One permit for each chunk that is being read, over all tables. */
  readonly permits: Semaphore;
  /** Runs `action` between two batches. Rejects with the reason of `signal` when that fires before. */
  readonly betweenBatches: <T>(action: () => Promise<T>, signal: AbortSignal) => Promise<T>;
  /** Resolves when all changes committed before `lsn` are written. */
  readonly passed: (lsn: Lsn, signal: AbortSignal) => Promise<void>;
  readonly exactlyAt: StreamEvents["exactlyAt"];
}

type StreamOfCopies = Pick<CopyEnvironment, "betweenBatches" | "passed" | "exactlyAt">;

/** For copies that the stream waits for, or without a stream: all calls are between two batches. */
export const waitingStream: StreamOfCopies = {
  betweenBatches: (action) => action(),
  passed: async () => {},
  exactlyAt: async (place, action) => ((await place()) === null ? null : await action()),
};

/** `parallel`: as of `CopyEnvironment`, at least one. */
export function copyEnvironment(
  parts: Pick<CopyEnvironment, "source" | "sink" | "states" | "pace">,
  parallel: number,
  stream: StreamOfCopies,
): CopyEnvironment {
  const most = Math.max(1, parallel);
  return { ...parts, ...stream, parallel: most, permits: new Semaphore(most) };
}

/**
 * Returns a point that the stream has passed: all changes from here on are newer. Without it, changes from before a table rewrite, which the
 * stream does not report, would count as newer than the copy's rows.
 */
export async function passedPoint(
  { source, passed }: CopyEnvironment,
  signal: AbortSignal,
): Promise<SnapshotPoint> {
  const point = await source.snapshotPoint(signal);
  await point[Symbol.asyncDispose]();
  await passed(point.lsn, signal);
  return point;
}

/** Points for chunks, beginning now. */
export async function pointsFromNow(environment: CopyEnvironment, signal: AbortSignal): Promise<CopyPoints> {
  return new CopyPoints(await environment.source.snapshotPoint(signal), renewal(environment, signal));
}

/** How the points of copies are followed by others. */
export function renewal({ source, pace }: CopyEnvironment, signal: AbortSignal): Renewal {
  const next = (stop: AbortSignal) => source.snapshotPoint(AbortSignal.any([signal, stop]));
  return { next, afterMs: pace.pointHeldMs };
}
