// When to tell the server how far we are, when to give a silent connection up, when to move on over what is not for us, and how
// much of a backlog to hand out at once.
// Pure.

const maxFeedbackMs = 2_500;
/** A server that reads answers a question at once. */
const answerMs = 2_500;

/** The server ends a walsender that has not answered for `wal_sender_timeout`: a quarter of it leaves room. */
export function feedbackIntervalMs(walSenderTimeoutMs: number): number {
  if (walSenderTimeoutMs <= 0) return maxFeedbackMs;
  return Math.max(100, Math.min(maxFeedbackMs, Math.floor(walSenderTimeoutMs / 4)));
}

/** How long the server may say nothing although it was asked to: a half-open socket never answers. */
export function silenceLimitMs(walSenderTimeoutMs: number): number {
  if (walSenderTimeoutMs <= 0) return 60_000;
  return Math.max(5_000, Math.min(60_000, walSenderTimeoutMs));
}

export type Liveness = "alive" | "ask" | "look" | "dead";

/**
 * What to make of a silence. While we do not read ourselves, the server's silence means nothing. One that was asked and has
 * not answered is busy, or gone: `look` asks it over another connection.
 */
export function liveness(silentMs: number, limitMs: number, isReading: boolean): Liveness {
  if (!isReading || silentMs < answerMs) return "alive";
  if (silentMs >= limitMs) return "dead";
  return silentMs < 2 * answerMs ? "ask" : "look";
}

/** What a stream does at its time. */
export interface StreamPace {
  /** Between two moves of the checkpoint over log that holds nothing for us. */
  readonly advanceMs: number;
  /** Between two heartbeats. */
  readonly heartbeatMs: number;
  /** From a batch of a backlog to the next, where that is not large enough before. */
  readonly collectMs: number;
}

/** A slot holds back whole segments of the log, of 16 MB: once in 10 s and in 30 s keeps it within a few on a busy server. */
export const streamPace: StreamPace = { advanceMs: 10_000, heartbeatMs: 30_000, collectMs: 200 };

/** Growth that is worth a move. Less may be what the moves themselves log, where source and sink share a server. */
export const worthwhileBytes = 1024n * 1024n;
/**
 * Behind the last growth that was worth a move, one more is made, at three times the pace: a slot lets go of log only up to
 * where the server has logged its running transactions, which it does within 15 s, and that is acknowledged. Then a little
 * growth waits for long, but not for ever: the slot's horizon for old rows of the catalog moves with it as well.
 */
const followUpAfter = 3;
const littleAfter = 30;

/**
 * Whether the checkpoint is to be moved over `grownBytes` of log that hold nothing for us, `sinceMs` after it was moved
 * last. `isFollowedUp`: the last move was over less than `worthwhileBytes`. Each move is a write at the sink.
 */
export function isAdvanceDue(
  grownBytes: bigint,
  sinceMs: number,
  isFollowedUp: boolean,
  pace: StreamPace,
): boolean {
  if (grownBytes <= 0n) return false;
  if (grownBytes >= worthwhileBytes) return sinceMs >= pace.advanceMs;
  return sinceMs >= pace.advanceMs * (isFollowedUp ? littleAfter : followUpAfter);
}

/**
 * Whether a message of our own is to be written into the source's log: when nothing of ours has come for `quietMs` while
 * the log grew by `grownBytes` since the last one. It comes back through decoding, so the server has to report how far it
 * is. What a message logs itself is far too little for the next.
 */
export function isHeartbeatDue(grownBytes: bigint, quietMs: number, pace: StreamPace): boolean {
  return grownBytes >= worthwhileBytes && quietMs >= pace.heartbeatMs;
}

/** A batch of a backlog is handed out at this size at once. */
export const ampleBytes = 4 * 1024 * 1024;

/**
 * How long to go on collecting, in milliseconds. Where the sink is faster than the source, it would get batches of a few changes,
 * each of them a transaction there. Nobody waits for a single change of what the server had logged before the stream began.
 */
export function collectForMs(isBacklog: boolean, sinceMs: number, { collectMs }: StreamPace): number {
  return isBacklog ? Math.max(0, collectMs - sinceMs) : 0;
}
