// First copies of tables that are added while the stream runs. They begin between two batches and are made incrementally. If one fails, the
// table is copied again while the stream waits, and that copy reports the reason.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { concurrently, itemsOf } from "../../concurrency/concurrently.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { type MillraceError, toMillraceError } from "../../errors/millrace-error.ts";
import type { TableCopy } from "../../sink/copy-sink.ts";
import type { RunHealth } from "../run-health.ts";
import type { CopyStates } from "../table-states.ts";
import type { UnreadableTables } from "../unreadable-tables.ts";
import { type CopyEnvironment, passedPoint, pointsFromNow } from "./copy-environment.ts";
import { copyChunks, finishCopy, type StartedTable, startCopy, tellersOf } from "./copy-table.ts";

const noPoint: readonly ErrorCode[] = ["slot_creation_blocked", "slots_exhausted", "walsenders_exhausted"];

/** The error, if no point can be had for now, as its slot or connection is in use elsewhere; otherwise null. */
export function pointMissing(error: unknown): MillraceError | null {
  const failure = toMillraceError(error);
  return noPoint.includes(failure.code) ? failure : null;
}

export interface BegunCopy {
  readonly table: TableShape;
  readonly copy: TableCopy;
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
    readonly states: CopyStates,
    private readonly reporter: Pick<RunHealth, "reportMeanwhile">,
    private readonly unreadable: UnreadableTables,
  ) {}

  /** Whether the table's last incremental copy failed. Returns true once. */
  takeFailed({ relation }: TableShape): boolean {
    return this.#failed.delete(relation.id);
  }

  /** The sink has begun these copies. */
  begin(copies: readonly BegunCopy[]): void {
    for (const begun of copies) {
      this.states.expects(begun.table);
      this.#report(begun.table, { kind: "start" });
      this.#waiting.push(begun);
      this.#underWay.set(begun.table.relation.id, Promise.withResolvers());
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

  made(table: TableShape): void {
    this.states.copied(table);
    this.#report(table, { kind: "complete" });
    this.unreadable.copied(table);
    this.#end(table);
  }

  /** `missing`: no point can be had now, also not while the stream waits, so that the table is tried again later; null: for another reason. */
  failed({ table }: BegunCopy, missing: MillraceError | null): void {
    this.states.gaveUp(table);
    if (missing) this.unreadable.failed(table, missing);
    else this.#failed.add(table.relation.id);
    this.#end(table);
  }

  #report({ relation }: TableShape, outcome: Parameters<RunHealth["reportMeanwhile"]>[1]): void {
    this.reporter.reportMeanwhile({ name: "snapshot", table: qualifiedName(relation) }, outcome);
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
  try {
    const made = new Set<BegunCopy>();
    const missing = await copyAll(environment, copies, begun, made, copyLacking, signal).then(
      () => null,
      pointMissing,
    );
    signal.throwIfAborted();
    const failed = begun.filter((each) => !made.has(each));
    if (failed.length === 0) return;
    await environment.betweenBatches(async () => {
      for (const each of failed) {
        await each.copy[Symbol.asyncDispose]();
        copies.failed(each, missing);
      }
      await copyLacking();
    }, signal);
  } finally {
    // Once they have ended, a copy that the stream waits for finishes its chunk before the run stops.
    signal.removeEventListener("abort", end);
  }
}

/** Adds the copies to `made` that were made. */
async function copyAll(
  environment: CopyEnvironment,
  copies: IncrementalCopies,
  begun: readonly BegunCopy[],
  made: Set<BegunCopy>,
  copyLacking: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  const { source, parallel } = environment;
  const before = await passedPoint(environment, signal);
  const started: { readonly each: BegunCopy; readonly of: StartedTable }[] = [];
  await concurrently(parallel, itemsOf(begun, signal), async (each) => {
    try {
      const of = { ...each, signal, ...tellersOf(copies.states, each.table) };
      started.push({ each, of: await startCopy(environment, of) });
    } catch {
      // The next copy, which the stream waits for, meets and reports the reason if it persists.
    }
  });
  signal.throwIfAborted();
  if (started.length === 0) return;
  await using points = await pointsFromNow(environment, signal);
  await concurrently(parallel, itemsOf(started, signal), async ({ each, of }) => {
    copies.states.began(of.table);
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
}
