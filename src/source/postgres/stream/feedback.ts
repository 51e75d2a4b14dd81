// Decides when to send a standby status update, when to give up a silent connection, when to advance the checkpoint
// over log that holds nothing for us, and how long to collect changes of a backlog. Pure: replication-client.ts sends it.

const maxFeedbackMs = 2_500;
/** A server that reads its socket answers a ping at once. */
const answerMs = 2_500;

/**
 * The server ends a walsender whose client has been silent for `wal_sender_timeout`. A quarter of it leaves a margin.
 */
export function feedbackIntervalMs(walSenderTimeoutMs: number): number {
  if (walSenderTimeoutMs <= 0) return maxFeedbackMs;
  return Math.max(100, Math.min(maxFeedbackMs, Math.floor(walSenderTimeoutMs / 4)));
}

/** How long the server may stay silent although it was pinged: a half-open socket never answers. */
export function silenceLimitMs(walSenderTimeoutMs: number): number {
  if (walSenderTimeoutMs <= 0) return 60_000;
  return Math.max(5_000, Math.min(60_000, walSenderTimeoutMs));
}

export type Liveness = "alive" | "ping" | "probe" | "dead";

/**
 * Judges a silence. While we do not read the socket, the server's silence means nothing. A server that does not answer
 * a ping is busy or gone: `probe` checks its walsender over another connection. `isWorking`: a check has found that at
 * work. It may be so for minutes: before version 16 it says nothing while it passes over a large transaction.
 */
export function liveness(silentMs: number, limitMs: number, isReading: boolean, isWorking = false): Liveness {
  if (!isReading || silentMs < answerMs) return "alive";
  if (silentMs >= limitMs && !isWorking) return "dead";
  return silentMs < Math.min(2 * answerMs, limitMs / 2) ? "ping" : "probe";
}

/** The intervals at which a stream acts. */
export interface StreamPace {
  /** From one advance of the checkpoint over log that holds nothing for us to the next. */
  readonly advanceMs: number;
  /** From one heartbeat to the next. */
  readonly heartbeatMs: number;
  /** From one batch of a backlog to the next, where that has not reached its target size before. */
  readonly collectMs: number;
}

/**
 * What is not acknowledged is decoded again after a restart, and the slot retains it. Within 5 s it is acknowledged, with the write at the
 * sink. A heartbeat is only for servers that do not report their position.
 */
export const streamPace: StreamPace = { advanceMs: 4_000, heartbeatMs: 30_000, collectMs: 200 };

/**
 * Log growth that justifies an advance. Where source and sink share a server, the advances themselves may log a little
 * less than this.
 */
export const minAdvanceBytes = 1024n * 1024n;
/**
 * `followUpAfter` intervals after an advance over so much log comes one more: a slot releases log only up to the last
 * `running_xacts` record that is acknowledged, and the server writes one within 15 s. After that, less log waits for
 * `littleAfter` intervals. It does not wait for ever, as the slot's catalog_xmin moves with it.
 */
const followUpAfter = 8;
const littleAfter = 75;

/**
 * Whether to advance the checkpoint over `grownBytes` of log that hold nothing for us, `sinceMs` after its last
 * advance. `isFollowedUp`: the last advance was over less than `minAdvanceBytes`. Each advance is a write at the sink.
 */
export function isAdvanceDue(
  grownBytes: bigint,
  sinceMs: number,
  isFollowedUp: boolean,
  pace: StreamPace,
): boolean {
  if (grownBytes <= 0n) return false;
  if (grownBytes >= minAdvanceBytes) return sinceMs >= pace.advanceMs;
  return sinceMs >= pace.advanceMs * (isFollowedUp ? littleAfter : followUpAfter);
}

/**
 * Whether to write a heartbeat into the source's log: nothing of ours has come for `quietMs`, and the log grew by
 * `grownBytes` since the last heartbeat. The heartbeat is decoded like any change, so the server has to report its
 * position. What a heartbeat itself logs is far too little to cause the next one.
 */
export function isHeartbeatDue(grownBytes: bigint, quietMs: number, pace: StreamPace): boolean {
  return grownBytes >= minAdvanceBytes && quietMs >= pace.heartbeatMs;
}

/** Where the sink asks for no other size of batches. */
export const targetBatchBytes = 4 * 1024 * 1024;

/**
 * How many milliseconds to go on collecting. A sink that is faster than the source would get batches of a few changes
 * each, and make a transaction of every one. In a backlog, which the server had logged before the stream began, nobody
 * waits for a single change.
 */
export function collectForMs(isBacklog: boolean, sinceMs: number, { collectMs }: StreamPace): number {
  return isBacklog ? Math.max(0, collectMs - sinceMs) : 0;
}
