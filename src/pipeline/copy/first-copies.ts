// First copies of tables that come to a stream that goes on already: they are begun between two batches and made beside it. One that
// fails so is made between two batches after all, where what stands in its way is told and dealt with.

import { qualifiedName, type TableShape } from "../../change/relation.ts";
import { untilAborted } from "../../change/until-aborted.ts";
import type { CopyBeside, Sink } from "../../sink/sink.ts";
import type { SnapshotPoint } from "../../source/source.ts";
import type { ProgressMeter } from "../progress-meter.ts";
import type { RunHealth } from "../run-health.ts";
import {
  type BesideStream,
  besidePoints,
  copyRowsBeside,
  endBeside,
  passedPoint,
  settleBeside,
  type TableBeside,
} from "./copy-beside-stream.ts";
import type { CopyPoints } from "./copy-points.ts";
import type { UnreadableTables } from "./unreadable-tables.ts";
import { WorkPool } from "./work-pool.ts";

export interface BegunFirst {
  readonly table: TableShape;
  readonly copy: CopyBeside;
}

interface FirstCopiesRequest {
  readonly sink: Sink;
  readonly meter: ProgressMeter;
  readonly reporter: Pick<RunHealth, "passing">;
}

export class FirstCopies {
  /** Ends all of them, with the run. */
  readonly cut = new AbortController();
  readonly #waiting: BegunFirst[] = [];
  #listener: ((begun: readonly BegunFirst[]) => void) | null = null;
  /** By OID: those that are begun, and what tells that they are not any more. */
  readonly #begun = new Map<number, PromiseWithResolvers<void>>();
  /** They are not to be begun now. */
  readonly #failed = new Set<number>();

  constructor(
    private readonly request: FirstCopiesRequest,
    private readonly unreadable: UnreadableTables,
  ) {}

  /** Between two batches. `isOrdered`: rows of later ones may refer to rows of earlier ones. Returns those that cannot be copied so. */
  async begin(tables: readonly TableShape[], isOrdered = false): Promise<readonly TableShape[]> {
    const { sink } = this.request;
    const begun = new Map<TableShape, CopyBeside>();
    for (const table of tables) {
      const isFailed = this.#failed.delete(table.relation.id);
      const copy = isFailed ? null : await sink.beginBeside(table, "initial", this.cut.signal);
      if (copy !== null) begun.set(table, copy);
    }
    // What is copied now may refer to rows of those that would come later.
    for (const [table, copy] of isOrdered && begun.size < tables.length ? begun : []) {
      if (!copy.waitsForOthers) continue;
      begun.delete(table);
      await copy[Symbol.asyncDispose]();
    }
    for (const [table, copy] of begun) this.#begin({ table, copy });
    this.#tell();
    return tables.filter((table) => !begun.has(table));
  }

  #begin(begun: BegunFirst): void {
    const { meter, reporter } = this.request;
    const { relation, estimatedRows } = begun.table;
    const name = qualifiedName(relation);
    meter.began(name);
    meter.expects(name, estimatedRows);
    reporter.passing({ name: "snapshot", table: name }, { kind: "start" });
    this.#waiting.push(begun);
    this.#begun.set(relation.id, Promise.withResolvers());
  }

  /** `listener` is given what is begun, and what was before: those that are made side by side together, one after the other. */
  onBegun(listener: (begun: readonly BegunFirst[]) => void): void {
    this.#listener = listener;
    this.#tell();
  }

  /** It is begun, and neither made nor given up. */
  isOnItsWay({ relation }: TableShape): boolean {
    return this.#begun.has(relation.id);
  }

  /** Resolves when it is no longer on its way. Throws the reason of `cut`. */
  async ended({ relation }: TableShape, cut: AbortSignal): Promise<void> {
    const begun = this.#begun.get(relation.id);
    if (begun) await untilAborted(begun.promise, cut);
  }

  progress({ relation }: TableShape, rows: number, bytes: number): void {
    this.request.meter.copying(qualifiedName(relation), rows, bytes);
  }

  made(table: TableShape): void {
    const name = qualifiedName(table.relation);
    this.request.meter.copied(name);
    this.request.reporter.passing({ name: "snapshot", table: name }, { kind: "complete" });
    this.unreadable.copied(table);
    this.#end(table);
  }

  /** In a turn that makes it otherwise. */
  async giveUp({ table, copy }: BegunFirst): Promise<void> {
    this.request.meter.gaveUp(qualifiedName(table.relation));
    this.request.meter.withdraws(qualifiedName(table.relation));
    this.#failed.add(table.relation.id);
    await copy[Symbol.asyncDispose]();
    this.#end(table);
  }

  #end({ relation }: TableShape): void {
    this.#begun.get(relation.id)?.resolve();
    this.#begun.delete(relation.id);
  }

  #tell(): void {
    if (this.#listener === null) return;
    const waiting = this.#waiting.splice(0);
    const together = waiting.filter(({ copy }) => !copy.waitsForOthers);
    if (together.length > 0) this.#listener(together);
    for (const each of waiting) if (each.copy.waitsForOthers) this.#listener([each]);
  }
}

/** Returns when all of them are made. Throws what ends the run, or the reason of `cut`. */
export async function copyFirst(
  beside: BesideStream,
  first: FirstCopies,
  begun: readonly BegunFirst[],
  cut: AbortSignal,
): Promise<void> {
  const end = () => first.cut.abort(cut.reason);
  cut.addEventListener("abort", end, { once: true });
  if (cut.aborted) end();
  const { signal: over } = first.cut;
  try {
    const started = await startAll(beside, begun, over).catch(() => null);
    const failed = started === null ? begun : await copyAll(beside, first, begun, started, over);
    over.throwIfAborted();
    if (failed.length > 0) await makeBetween(beside, first, failed, over);
  } finally {
    cut.removeEventListener("abort", end);
  }
}

interface StartedCopies {
  /** Null: each has a point of its own. */
  readonly points: CopyPoints | null;
  /** A point that the stream had passed before it was watched; absent: it is not. */
  readonly before?: SnapshotPoint;
}

async function startAll(
  beside: BesideStream,
  begun: readonly BegunFirst[],
  cut: AbortSignal,
): Promise<StartedCopies> {
  const watching = begun.filter(({ copy }) => copy.watch);
  const shared = async () => (begun.every(isAsOfItsOwn) ? null : await besidePoints(beside, cut));
  if (watching.length === 0) return { points: await shared() };
  const before = await passedPoint(beside, cut);
  await beside.turn(async () => {
    for (const { copy } of watching) await copy.watch?.();
  }, cut);
  return { points: await shared(), before };
}

/** It goes before changes of its table, as of a point that nothing else is as of. */
function isAsOfItsOwn({ copy }: BegunFirst): boolean {
  return copy.goBefore !== undefined;
}

/** Returns those that have failed before they were complete at the sink. */
async function copyAll(
  beside: BesideStream,
  first: FirstCopies,
  begun: readonly BegunFirst[],
  { points: taken, before }: StartedCopies,
  cut: AbortSignal,
): Promise<readonly BegunFirst[]> {
  const failed: BegunFirst[] = [];
  const copyOne = async (each: BegunFirst, points: CopyPoints | null) => {
    const { table, copy } = each;
    const progress = (rows: number, bytes: number) => first.progress(table, rows, bytes);
    const on: TableBeside = { table, copy, cut, wish: { mode: "initial", progress } };
    try {
      await copyRowsBeside(beside, on, points);
      // Nothing stands in the way of another copy.
      if (!copy.laysAside) await settleBeside(beside, on);
    } catch {
      cut.throwIfAborted();
      failed.push(each);
      return;
    }
    if (copy.laysAside) await settleBeside(beside, on).catch((error: unknown) => endAll(first, error));
    await endBeside(beside, on);
    beside.source.copied(table, before);
    first.made(table);
  };
  const copySome = async (some: readonly BegunFirst[], points: CopyPoints | null) => {
    const pool = new WorkPool(beside.parallel, cut);
    pool.add(some.map((each) => () => copyOne(each, points)));
    await pool.ended();
  };
  {
    await using points = taken;
    await copySome(
      begun.filter((each) => !isAsOfItsOwn(each)),
      points,
    );
  }
  await copySome(begun.filter(isAsOfItsOwn), null);
  return failed;
}

/** The others need not be made by a run that ends. */
function endAll({ cut }: FirstCopies, error: unknown): never {
  cut.abort(error);
  throw error;
}

/** What was the matter is met again, and told, where it still is. */
async function makeBetween(
  { turn, listTables }: BesideStream,
  first: FirstCopies,
  failed: readonly BegunFirst[],
  cut: AbortSignal,
): Promise<void> {
  await turn(async () => {
    for (const each of failed) await first.giveUp(each);
    await listTables();
  }, cut);
}
