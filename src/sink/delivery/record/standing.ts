// Where a sink of messages stands, as its record tells. Pure.

import { behind, type Checkpoint, isDone, reachingTo } from "../../../change/checkpoint.ts";
import { zeroLsn } from "../../../change/lsn.ts";
import type { SinkRecord } from "./sink-record.ts";

/**
 * The record's checkpoint. Its `reached` covers every place of the record that lies beyond, of copies too: a log that lacks any of them is
 * refused. Of a chunk that is under way nothing is recorded yet.
 */
export function standing(record: SinkRecord): Checkpoint {
  const { checkpoint, log, reached, windowEnds, versionSteps, copied, chunked } = record;
  const changes = [...windowEnds, ...versionSteps.map((step) => step.behind), ...(reached ? [reached] : [])];
  const ahead = changes.filter((position) => !isDone(checkpoint, position)).map(behind);
  const whole = copied.values().map(({ lsn }) => lsn);
  const inChunks = chunked
    .values()
    .flatMap(({ points, origin }) => [points?.last ?? zeroLsn, origin?.lsn ?? zeroLsn]);
  return placed(reachingTo(checkpoint, [...ahead, ...whole, ...inChunks]), log);
}

/** The record's checkpoint, with the versions that copies took before the first change that is not done. */
export function passedBy({ checkpoint, versionSteps }: SinkRecord): Checkpoint {
  const step = versionSteps.findLast(({ behind: change }) => isDone(checkpoint, change));
  const { lastVersion } = checkpoint;
  return step && step.version > lastVersion ? { ...checkpoint, lastVersion: step.version } : checkpoint;
}

/** With the log that it is a place in, where that is known. */
export function placed(checkpoint: Checkpoint, log: string | null): Checkpoint {
  return log === null ? checkpoint : { ...checkpoint, log };
}
