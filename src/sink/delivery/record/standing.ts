// Where a sink of messages stands, as its record tells. Pure.

import { behind, type Checkpoint, isDone, reachingTo } from "../../../change/checkpoint.ts";
import type { SinkRecord } from "./sink-record.ts";

/**
 * The record's checkpoint. Its `reached` covers every place of the record that lies beyond: a log that lacks any of them is refused. So all
 * places of a record mean the same in each log that it goes on in.
 */
export function standing(record: SinkRecord): Checkpoint {
  const { checkpoint, log, reached, windowEnds, versionSteps, copied } = record;
  const changes = [...windowEnds, ...versionSteps.map((step) => step.behind), ...(reached ? [reached] : [])];
  const ahead = changes.filter((position) => !isDone(checkpoint, position)).map(behind);
  const points = copied.values().map(({ lsn }) => lsn);
  return placed(reachingTo(checkpoint, [...ahead, ...points]), log);
}

/** With the log that it is a place in, where that is known. */
export function placed(checkpoint: Checkpoint, log: string | null): Checkpoint {
  return log === null ? checkpoint : { ...checkpoint, log };
}
