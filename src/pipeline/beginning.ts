// Decides where a run begins: at the sink's checkpoint, or at a new point if the connector is new or begins anew.

import type { TakenBatches, TupleForm } from "../change/change-batch.ts";
import { areOfOneDatabase, type Checkpoint } from "../change/checkpoint.ts";
import type { TableShape } from "../change/relation.ts";
import { both } from "../concurrency/concurrently.ts";
import { resumableCodes } from "../errors/error-codes.ts";
import { MillraceError, toMillraceError } from "../errors/millrace-error.ts";
import type { Sink } from "../sink/sink.ts";
import type { Source } from "../source/source.ts";
import type { SnapshotPoint } from "../source/table-source.ts";
import { askComputed } from "./ask-computed.ts";
import { publishWhenUnlocked } from "./locked-tables.ts";
import type { RunWork } from "./run-work.ts";

/** What a run finds at source and sink. */
export interface Found {
  /** The sink's checkpoint. */
  readonly known: Checkpoint | null;
  readonly tables: readonly TableShape[];
  /** The log in which the stream resumes at `known`; null: no stream resumes, or that is still to be checked. */
  readonly log: string | null;
}

export interface Beginning {
  readonly checkpoint: Checkpoint;
  /** The point of a slot that was created just now. The caller disposes of it. */
  readonly point: SnapshotPoint | null;
}

interface BeginningRequest {
  readonly work: RunWork;
  readonly initialized: boolean;
  /** As `PipelineRequest` has it. */
  readonly resumes?: boolean;
  readonly stop: AbortSignal;
}

export async function readBothSides(
  { work, initialized, resumes = false }: Omit<BeginningRequest, "stop">,
  source: Source,
  sink: Sink,
): Promise<Found> {
  const opened = sink.open();
  const goesOn = initialized && work === "changes" && !resumes;
  // It uses a connection of its own, so that it need not wait for the tables.
  const checked = goesOn ? opened.then((known) => known && source.checkLog(known)) : null;
  const [[known, tables], log] = await both(both(opened, source.tables(askComputed(sink, opened))), checked);
  return { known, tables, log };
}

/** A connector that is new or begins anew gets a new slot. `step` is called with a description of what is being done. */
export async function beginRun(
  request: BeginningRequest,
  source: Source,
  sink: Sink,
  found: Found,
  step: (name: string) => void,
): Promise<Beginning> {
  if (request.initialized) {
    const checkpoint = request.resumes
      ? await resume(request, source, sink, found, step)
      : await goOn(source, sink, found, step);
    return { checkpoint, point: null };
  }
  const { known } = found;
  const hasStream = request.work === "changes";
  // Without `initialized`, nothing was delivered from the earlier slot, or everything is to be delivered again.
  if (hasStream && known !== null) await sink.forget(false);
  const point = await firstPoint(request, source, step);
  try {
    // The recorded shapes stay only if they are known to be of the same source database.
    if (!hasStream) await sink.forget(areOfOneDatabase(point.log, known?.log));
    const checkpoint = { resumeLsn: point.lsn, partial: null, lastVersion: point.timeUs, log: point.log };
    await sink.begin(checkpoint);
    return { checkpoint, point };
  } catch (error) {
    await point[Symbol.asyncDispose]();
    throw error;
  }
}

async function goOn(
  source: Source,
  sink: Sink,
  { known, log }: Found,
  step: (name: string) => void,
): Promise<Checkpoint> {
  if (known === null) {
    throw new MillraceError(
      "checkpoint_missing",
      "The sink no longer holds this connector's checkpoint: it was emptied, or is another one. " +
        "Send the command ReInitialize to copy the tables again.",
    );
  }
  if (log === null) return known;
  step("check the replication slot");
  await source.checkSlot(known);
  // Before anything is delivered: an LSN has a meaning only in its own log.
  if (log !== known.log) await sink.goOnIn(log);
  return { ...known, log };
}

/**
 * The stream goes on from a new slot, and what the sink has missed is found by comparing its rows. Whether the slot is lost is not asked again: a
 * source that was set back looks whole once it has written past the checkpoint, and a slot that a run made before it died looks like the old one.
 * To begin so twice costs a comparison, and loses nothing.
 */
async function resume(
  request: BeginningRequest,
  source: Source,
  sink: Sink,
  found: Found,
  step: (name: string) => void,
): Promise<Checkpoint> {
  const { known, tables } = found;
  if (known === null || !sink.verification || request.work !== "changes")
    return await goOn(source, sink, { ...found, log: known && (await source.checkLog(known)) }, step);
  await source.checkLog(known).catch((error: unknown) => {
    if (!resumableCodes.has(toMillraceError(error).code)) throw error;
  });
  await using point = await firstPoint(request, source, step);
  const { lsn: resumeLsn, timeUs: lastVersion, log } = point;
  const checkpoint = { resumeLsn, partial: null, lastVersion, log };
  await sink.verification.resume(checkpoint, tables);
  return checkpoint;
}

async function firstPoint(
  { work, stop }: BeginningRequest,
  source: Source,
  step: (name: string) => void,
): Promise<SnapshotPoint> {
  if (work !== "changes") {
    step("take a snapshot of the source");
    return await source.snapshotPoint(stop);
  }
  step("make the replication slot");
  await publishWhenUnlocked(source, stop, (reason) => step(`publish the tables. ${reason}`));
  return await source.createSlot(stop);
}

/** What the stream begins with. */
export interface Begun extends TakenBatches {
  readonly checkpoint: Checkpoint;
  readonly form: TupleForm;
  /** Tables whose shape the stream is to announce to the sink. */
  readonly behind: readonly TableShape[];
}
