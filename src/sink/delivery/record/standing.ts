// Where a sink of messages stands, as its record tells. Pure.

import {
  behind,
  type Checkpoint,
  donePosition,
  isDone,
  type Position,
  reachingTo,
} from "../../../change/checkpoint.ts";
import { lastLsn, zeroLsn } from "../../../change/lsn.ts";
import { hasStream, type SinkRecord } from "./sink-record.ts";

/**
 * The record's checkpoint. Its `reached` covers every place of the record that lies beyond, of copies too, and `keptReach`: a log that lacks
 * any of them is refused. Of a chunk that is under way nothing is recorded yet.
 */
export function standing(record: SinkRecord, keptReach = zeroLsn): Checkpoint {
  const { checkpoint, log, reached, windowEnds, versionSteps, copied, chunked } = record;
  const changes = [...windowEnds, ...versionSteps.map((step) => step.behind), ...(reached ? [reached] : [])];
  const ahead = changes.filter((position) => !isDone(checkpoint, position)).map(behind);
  const whole = copied.values().map(({ lsn }) => lsn);
  const inChunks = chunked
    .values()
    .flatMap(({ points, origin }) => [points?.last ?? zeroLsn, origin?.lsn ?? zeroLsn]);
  return placed(reachingTo(checkpoint, [...ahead, ...whole, ...inChunks, keptReach]), log);
}

/**
 * The record's checkpoint, with the versions that copies took before the first change that is not done. Without a stream it is behind every
 * place that rows of copies have.
 */
export function passedBy(record: SinkRecord): Checkpoint {
  const { checkpoint, versionSteps } = record;
  const step = versionSteps.findLast(({ behind: change }) => isDone(checkpoint, change));
  const { lastVersion } = checkpoint;
  const passed =
    step && step.version > lastVersion ? { ...checkpoint, lastVersion: step.version } : checkpoint;
  return hasStream(record) ? passed : { ...passed, ...behindAll };
}

const behindAll = { resumeLsn: lastLsn, partial: null };

/**
 * Which change the rows of a copy come after, where the stream stands at `place`. Without a stream their versions alone order them: the
 * source's LSN may be lower in a later round.
 */
export function placeOfCopy(record: SinkRecord, place: Pick<Checkpoint, "resumeLsn" | "partial">): Position {
  return donePosition(hasStream(record) ? place : behindAll);
}

/** With the log that it is a place in, where that is known. */
export function placed(checkpoint: Checkpoint, log: string | null): Checkpoint {
  return log === null ? checkpoint : { ...checkpoint, log };
}
