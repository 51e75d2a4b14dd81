// When a connector on a schedule copies everything again. Pure.

import { Cron } from "croner";
import type { ConnectorConfig } from "../connector.ts";

export type Schedule = NonNullable<ConnectorConfig["schedule"]>;

const minuteMs = 60_000;
const unitMs = { Minute: minuteMs, Hour: 60 * minuteMs, Day: 24 * 60 * minuteMs } as const;

/**
 * The first scheduled time after `after`: a rate counts from `after`, a cron expression uses the calendar of its time
 * zone. Null: there is none. Throws when the expression or the time zone is invalid.
 */
export function nextDue({ rate, cron }: Schedule, after: Date): Date | null {
  if (rate) return new Date(after.getTime() + rate.value * unitMs[rate.unit]);
  if (!cron) return null;
  const { expression, timezone } = cron;
  return new Cron(expression, { timezone, mode: "5-part", sloppyRanges: true, paused: true }).nextRun(after);
}
