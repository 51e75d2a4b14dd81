// A copy that the stream waits for, or that is made without a stream: the whole table in one transaction, or ranges that stay in a side table
// until all are there.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { CopyChunk, StartedCopy, TableCopy, TellPhase } from "../../copy-sink.ts";
import type { CopiedRange } from "../bookkeeping/copy-records.ts";
import type { CopyOutcome } from "./whole-copy.ts";

export interface BlockingCopySteps {
  /** The form of the table as a whole. */
  readonly form: TupleForm;
  /** Null: the table must come whole. */
  divide(): Promise<{ readonly form: TupleForm; readonly ranges: readonly CopiedRange[] } | null>;
  range(chunk: CopyChunk, range: PageRange): Promise<void>;
  /** Called when all ranges are there. */
  join(phase: TellPhase): Promise<CopyOutcome>;
  whole(chunk: CopyChunk): Promise<CopyOutcome>;
  /** Called when the copy is durable. */
  made(outcome: CopyOutcome): void;
}

export class BlockingCopy implements TableCopy {
  readonly stream = "waits";
  #isDivided = false;
  #isTaken = false;

  constructor(private readonly steps: BlockingCopySteps) {}

  async start(isDivided: boolean): Promise<StartedCopy> {
    const divided = isDivided ? await this.steps.divide() : null;
    if (divided === null) return { form: this.steps.form, ranges: null };
    this.#isDivided = true;
    const { form, ranges } = divided;
    return { form, ranges: { done: ranges, rows: ranges.reduce((sum, { rows }) => sum + rows, 0) } };
  }

  async take(chunk: CopyChunk): Promise<void> {
    if (chunk.part?.kind === "range") return await this.steps.range(chunk, chunk.part.range);
    this.steps.made(await this.steps.whole(chunk));
    this.#isTaken = true;
  }

  async settle(): Promise<"all"> {
    return "all";
  }

  async finish(phase: TellPhase = () => {}): Promise<"all"> {
    if (this.#isDivided) this.steps.made(await this.steps.join(phase));
    else if (!this.#isTaken) throw new Error("a copy is finished before it was taken");
    return "all";
  }

  /** Does nothing: done ranges stay for the next copy of the table. */
  async [Symbol.asyncDispose](): Promise<void> {}
}
