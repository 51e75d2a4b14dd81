// The first copy of a table, or one that takes the place of all its rows, while batches are applied: the table's changes are kept
// meanwhile, so that the copy has the table to itself. It is made as it would be between two batches, in sessions of its own; what was
// kept is applied behind it.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { BegunCopy, CopyBeside, CopyRequest, HeldRanges, SettledPiece } from "../../sink.ts";
import type { CopyOutcome } from "./table-copy.ts";

export interface FirstCopySteps {
  /** Of the whole table. */
  readonly form: TupleForm;
  /** As `Sink.beginCopy`. */
  divide(): Promise<BegunCopy | null>;
  whole(request: CopyRequest): Promise<CopyOutcome>;
  range(request: CopyRequest, range: PageRange): Promise<void>;
  join(): Promise<CopyOutcome>;
  /** Between two batches: the copy is durable. */
  made(outcome: CopyOutcome): void;
  /** Between two batches: applies a piece of what was kept. Returns whether more is kept. */
  applyKept(): Promise<boolean>;
  /** Between two batches where it is a first one: it is not made, or what was kept cannot be applied. */
  giveUp(): Promise<void>;
}

export class FirstCopyBeside implements CopyBeside {
  readonly takesAfterPoint = false;
  readonly takesInTurn = false;
  readonly laysAside = true;
  readonly waitsForOthers = false;
  #divided: BegunCopy | null = null;
  #outcome: CopyOutcome | null = null;
  #isMade = false;
  #isOver = false;

  constructor(private readonly steps: FirstCopySteps) {}

  get form(): TupleForm {
    return this.#divided?.form ?? this.steps.form;
  }

  async divide(): Promise<HeldRanges | null> {
    this.#divided = await this.steps.divide();
    return this.#divided;
  }

  async take(request: CopyRequest): Promise<void> {
    if (request.part?.kind === "range") await this.steps.range(request, request.part.range);
    else this.#outcome = await this.steps.whole(request);
  }

  async compare(): Promise<void> {
    this.#outcome ??= await this.steps.join();
  }

  async settle(): Promise<SettledPiece> {
    if (this.#outcome && !this.#isMade) this.steps.made(this.#outcome);
    this.#isMade = true;
    const isMore = await this.steps.applyKept();
    this.#isOver = !isMore;
    return { isMore, isHeld: false, owed: [] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOver) await this.steps.giveUp();
  }
}
