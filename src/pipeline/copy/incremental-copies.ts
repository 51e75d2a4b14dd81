// First copies of tables that are added while the stream runs. They begin between two batches and are made incrementally. If one fails, the
// table is copied again while the stream waits, and that copy reports the reason.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { concurrently, itemsOf } from "../../concurrency/concurrently.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import type { CopyPhase, TableCopy, TellPhase } from "../../sink/copy-sink.ts";
import type { ProgressMeter } from "../progress-meter.ts";
import type { RunHealth } from "../run-health.ts";
import type { CopyStates } from "../table-states.ts";
import type { UnreadableTables } from "../unreadable-tables.ts";
import { type CopyEnvironment, passedPoint, pointsFromNow } from "./copy-environment.ts";
import { copyChunks, finishCopy, type StartedTable, startCopy } from "./copy-table.ts";

export interface BegunCopy {
  readonly table: TableShape;
  readonly copy: TableCopy;
}

interface CopiesRequest {
  readonly meter: ProgressMeter;
  readonly states: CopyStates;
  readonly reporter: Pick<RunHealth, "reportMeanwhile">;
}

export class IncrementalCopies {
  /** Aborts all of them when the run ends. */
  readonly abort = new AbortController();
  readonly #waiting: BegunCopy[] = [];
  #listener: ((begun: readonly BegunCopy[]) => void) | null = null;
  /** By OID: copies that are under way. Resolved when they are not any more. */
  readonly #underWay = new Map<number, PromiseWithResolvers<void>>();
  /** OIDs of tables whose incremental copy failed: the stream waits for the next one. */
  readonly #failed = new Set<number>();

  constructor(
    private readonly request: CopiesRequest,
    private readonly unreadable: UnreadableTables,
  ) {}

  /** Whether the table's last incremental copy failed. Returns true once. */
  takeFailed({ relation }: TableShape): boolean {
    return this.#failed.delete(relation.id);
  }

  /** The sink has begun these copies. */
  begin(copies: readonly BegunCopy[]): void {
    const { meter, states, reporter } = this.request;
    for (const begun of copies) {
      const { relation, estimatedRows } = begun.table;
      const name = qualifiedName(relation);
      meter.began(name);
      states.expects(begun.table);
      meter.expects(name, estimatedRows);
      reporter.reportMeanwhile({ name: "snapshot", table: name }, { kind: "start" });
      this.#waiting.push(begun);
      this.#underWay.set(relation.id, Promise.withResolvers());
    }
    this.#startWaiting();
  }

  /** `listener` gets the copies that have begun since its last call: they are made together. */
  onBegun(listener: (begun: readonly BegunCopy[]) => void): void {
    this.#listener = listener;
    this.#startWaiting();
  }

  isUnderWay({ relation }: TableShape): boolean {
    return this.#underWay.has(relation.id);
  }

  /** Resolves when the table's copy is no longer under way. Throws the signal's reason. */
  async ended({ relation }: TableShape, signal: AbortSignal): Promise<void> {
    const underWay = this.#underWay.get(relation.id);
    if (underWay) await untilAborted(underWay.promise, signal);
  }

  started(table: TableShape): void {
    this.request.states.began(table);
  }

  progress(table: TableShape, rows: number, bytes: number): void {
    this.request.meter.copying(qualifiedName(table.relation), rows, bytes);
    this.request.states.copying(table, rows, bytes);
  }

  inPhase(table: TableShape, phase: CopyPhase, rowsWritten: number | null): void {
    this.request.meter.inPhase(qualifiedName(table.relation), phase);
    this.request.states.inPhase(table, phase, rowsWritten);
  }

  made(table: TableShape): void {
    const name = qualifiedName(table.relation);
    this.request.meter.copied(name);
    this.request.states.copied(table);
    this.request.reporter.reportMeanwhile({ name: "snapshot", table: name }, { kind: "complete" });
    this.unreadable.copied(table);
    this.#end(table);
  }

  failed({ table }: BegunCopy): void {
    this.request.meter.gaveUp(qualifiedName(table.relation));
    this.request.meter.withdraws(qualifiedName(table.relation));
    this.request.states.gaveUp(table);
    this.#failed.add(table.relation.id);
    this.#end(table);
  }

  #end({ relation }: TableShape): void {
    this.#underWay.get(relation.id)?.resolve();
    this.#underWay.delete(relation.id);
  }

  #startWaiting(): void {
    if (this.#listener !== null && this.#waiting.length > 0) this.#listener(this.#waiting.splice(0));
  }
}

/**
 * Makes copies that have begun. `copyLacking`, called between two batches, copies what the sink lacks: rows that are incomplete, and tables whose
 * copies have failed, for which the stream waits then. Throws what ends the run, or the reason of `signal`.
 */
export async function makeIncrementalCopies(
  environment: CopyEnvironment,
  copies: IncrementalCopies,
  begun: readonly BegunCopy[],
  copyLacking: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  const end = () => copies.abort.abort(signal.reason);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const { signal: ended } = copies.abort;
  try {
    const made = await copyAll(environment, copies, begun, copyLacking, ended).catch(
      () => new Set<BegunCopy>(),
    );
    ended.throwIfAborted();
    const failed = begun.filter((each) => !made.has(each));
    if (failed.length === 0) return;
    await environment.betweenBatches(async () => {
      for (const each of failed) {
        await each.copy[Symbol.asyncDispose]();
        copies.failed(each);
      }
      await copyLacking();
    }, ended);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** Returns the copies that were made. */
async function copyAll(
  environment: CopyEnvironment,
  copies: IncrementalCopies,
  begun: readonly BegunCopy[],
  copyLacking: () => Promise<unknown>,
  ended: AbortSignal,
): Promise<ReadonlySet<BegunCopy>> {
  const { source, parallel } = environment;
  const made = new Set<BegunCopy>();
  const before = await passedPoint(environment, ended);
  const started: { readonly each: BegunCopy; readonly of: StartedTable }[] = [];
  await concurrently(parallel, itemsOf(begun, ended), async (each) => {
    const progress = (rows: number, bytes: number) => copies.progress(each.table, rows, bytes);
    const phase: TellPhase = (phase, rowsWritten) => copies.inPhase(each.table, phase, rowsWritten);
    try {
      started.push({ each, of: await startCopy(environment, { ...each, signal: ended, progress, phase }) });
    } catch {
      // The next copy, which the stream waits for, meets and reports the reason if it persists.
    }
  });
  ended.throwIfAborted();
  if (started.length === 0) return made;
  await using points = await pointsFromNow(environment, ended);
  await concurrently(parallel, itemsOf(started, ended), async ({ each, of }) => {
    copies.started(of.table);
    try {
      await copyChunks(environment, of, points);
      await finishCopy(environment, of, copyLacking);
      source.copied(of.table, before);
      await of.copy[Symbol.asyncDispose]();
    } catch {
      return;
    }
    made.add(each);
    copies.made(of.table);
  });
  return made;
}
