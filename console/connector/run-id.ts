// When a run began: its id is a UUIDv7, which begins with the milliseconds since 1970. RFC 9562, section 5.7. Pure.

/** Unix milliseconds; null: the id is no UUIDv7. */
export function runBegan(runId: string): number | null {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7/i.exec(runId) ?? [];
  return high && low ? Number.parseInt(high + low, 16) : null;
}
