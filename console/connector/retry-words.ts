// How often it was tried, and when it is tried again. Pure: the clock comes in.

import type { ConnectorStatus } from "../../src/connector/status.ts";
import { plural } from "../text/numbers.ts";
import { ago } from "../text/times.ts";

/** Null: nothing is tried again. */
export function retryWords({ status: { retry }, next_attempt_at: next }: ConnectorStatus, now: number) {
  if (!retry) return null;
  const failed = `${plural(retry.attempt, "attempt")} failed`;
  if (next === undefined) return failed;
  const at = Date.parse(next);
  return `${failed}, next ${at - now >= 1_000 ? ago(at, now) : "now"}`;
}
