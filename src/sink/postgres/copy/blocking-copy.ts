// A copy that the stream waits for, or that is made without a stream: the whole table in one transaction, or ranges that stay in a side table
// until all are there.

import type { Client } from "pg";
import type { PageRange } from "../../../change/page-range.ts";
import type {
  CopyChunk,
  CopyMode,
  StartedCopy,
  StreamDuring,
  TableCopy,
  TellPhase,
} from "../../copy-sink.ts";
import { type CopiedRange, sideFingerprint } from "../bookkeeping/copy-records.ts";
import { hasOtherUniqueIndex, readTargetTable } from "../schema/target-table.ts";
import type { CopyContext } from "./copy-context.ts";
import { helperTables } from "./helper-tables.ts";
import { beginRanges, copyRange, joinRanges, type RangeCopy } from "./range-copy.ts";

/** `asked`: whether the stream could go on meanwhile. */
export async function beginBlocking(
  context: CopyContext,
  mode: CopyMode,
  asked: StreamDuring,
): Promise<TableCopy> {
  const { apply, tables } = context.sink;
  const { relation } = context.table;
  if (asked === "runs" && (await apply.guard((client) => mustStand(client, context, mode))))
    return new BlockingCopy(context, mode, "stands");
  await apply.guard((client) => tables.interrupted.drop(client, relation.id));
  // `prepare` has already settled the names of tables that get their first copy.
  if (mode !== "initial") await apply.guard((client) => tables.takeName(client, relation));
  return new BlockingCopy(context, mode, "waits");
}

/**
 * Whether changes from before the copy could not be applied any more: one brings back a unique value that another row of the copy has by now, or a
 * reference to a row that the copy has removed.
 */
async function mustStand(client: Client, context: CopyContext, mode: CopyMode): Promise<boolean> {
  const { sink, table } = context;
  const target =
    mode === "initial" ? null : await readTargetTable(client, sink.naming.target(table.relation));
  if (target === null) return false;
  // Rows that it refers to may be ahead of the stream, too.
  if (target.refersTo.length > 0) return true;
  return context.modeFor(mode) === "replace"
    ? target.isReferred
    : await hasOtherUniqueIndex(client, target, table.relation);
}

class BlockingCopy implements TableCopy {
  #isDivided = false;
  #isTaken = false;
  #isKept = false;

  constructor(
    private readonly context: CopyContext,
    private readonly mode: CopyMode,
    readonly stream: "waits" | "stands",
  ) {}

  async start(isDivided: boolean): Promise<StartedCopy> {
    const form = isDivided ? await this.#divide() : null;
    if (form === null) return { form: this.context.form, ranges: null };
    this.#isDivided = true;
    const done = this.#ranges;
    return { form, ranges: { done, rows: done.reduce((sum, { rows }) => sum + rows, 0) } };
  }

  async take(chunk: CopyChunk): Promise<void> {
    const { context, mode } = this;
    if (chunk.part?.kind === "range") return await this.#takeRange(chunk, chunk.part.range);
    // Stale rows of tables that are copied later may refer to those that would be removed.
    const mayKeepAbsent = mode === "initial";
    const outcome = await context.intoTarget(chunk, context.modeFor(mode), { mayKeepAbsent });
    context.made(outcome);
    this.#isKept = outcome.keepsAbsent === true;
    this.#isTaken = true;
  }

  async settle(): Promise<"all"> {
    return "all";
  }

  async finish(phase: TellPhase = () => {}): Promise<"all" | "kept"> {
    if (this.#isDivided) await this.#join(phase);
    else if (!this.#isTaken) throw new Error("a copy is finished before it was taken");
    return this.#isKept ? "kept" : "all";
  }

  /** Does nothing: done ranges stay for the next copy of the table. */
  async [Symbol.asyncDispose](): Promise<void> {}

  get #ranges(): readonly CopiedRange[] {
    const { sink, table } = this.context;
    return sink.tables.records.of(table.relation.id, "side")?.ranges ?? [];
  }

  get #rangeCopy(): RangeCopy {
    const { sink, table } = this.context;
    const { connector, naming } = sink;
    const { side } = helperTables(connector.connectorId, table.relation.id);
    return { connector, table, side, target: naming.target(table.relation) };
  }

  /** Begins or resumes ranges in a side table. Returns the form of their rows. Null: the table must be copied whole. */
  async #divide(): Promise<StartedCopy["form"] | null> {
    const { table } = this.context;
    const { tables, naming, apply, refusals } = this.context.sink;
    const { id } = table.relation;
    if (table.isPartitioned || naming.isShared(table.relation)) return null;
    await apply.guard((client) => tables.records.reload(client, id));
    // Without a stream, nothing brings the changes between an earlier run's points and this one's.
    const known = apply.hasStream() ? tables.records.of(id, "side") : null;
    // Only a copy as a whole can report which row was refused.
    if (refusals.isTraced(table.relation) && !known?.ranges.length) return null;
    const copy = this.#rangeCopy;
    const begun = await this.context.inSession((client) => beginRanges(client, copy, known), {
      isLast: true,
    });
    if (begun === null) tables.records.ended(id);
    else if (!begun.isResumed) tables.records.begun(id, "side", sideFingerprint(table));
    return begun?.form ?? null;
  }

  async #takeRange(chunk: CopyChunk, range: PageRange): Promise<void> {
    const { sink, table } = this.context;
    const copied = await this.context.takeCounted(chunk, false, (client, chunk) =>
      copyRange(client, this.#rangeCopy, chunk, range),
    );
    sink.tables.records.added(table.relation.id, copied);
  }

  async #join(phase: TellPhase): Promise<void> {
    const { context, mode } = this;
    const { config, tables } = context.sink;
    const copy = { ...this.#rangeCopy, mode: context.modeFor(mode), phase };
    const outcome = await context.inSession(
      (client) => joinRanges(client, config, copy, this.#ranges, context.known()),
      { isIntoTarget: true },
    );
    tables.records.ended(context.table.relation.id);
    context.made(outcome);
  }
}
