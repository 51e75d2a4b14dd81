// When to tell the server how far we are, and when to give a silent connection up. Pure.

/** The server ends a walsender that has not answered for `wal_sender_timeout`: a quarter of it leaves room. */
export function feedbackIntervalMs(walSenderTimeoutMs: number): number {
  if (walSenderTimeoutMs <= 0) return 5_000;
  return Math.max(100, Math.min(5_000, Math.floor(walSenderTimeoutMs / 4)));
}

/** How long the server may say nothing although it was asked to: a half-open socket never answers. */
export function silenceLimitMs(walSenderTimeoutMs: number): number {
  if (walSenderTimeoutMs <= 0) return 60_000;
  return Math.max(5_000, Math.min(60_000, walSenderTimeoutMs));
}

export type Liveness = "alive" | "ask" | "dead";

/** What to make of a silence. While we do not read ourselves, the server's silence means nothing. */
export function liveness(silentMs: number, limitMs: number, isReading: boolean): Liveness {
  if (!isReading || silentMs < limitMs / 2) return "alive";
  return silentMs < limitMs ? "ask" : "dead";
}
