// The first copy of a table that is not its copy's alone: rows of others are in it as well, foreign keys in force tie it to other tables,
// or the sink has one session. The table's changes are applied before its copy is there, once those are there that it refers to; what they
// touch is noted, as with a task's copy, and the rest of the rows are put there in pieces between the batches.
// A run that dies begins the copy anew: what is there of it by then is right, and goes on being so.

import type { TupleForm } from "../../../change/change-batch.ts";
import type { CopyBeside, CopyRequest, HeldRanges, SettledPiece } from "../../sink.ts";

export interface NotedFirstSteps {
  /** The table's changes are applied from here on, if they were not, and noted. */
  begin(): Promise<CopyBeside>;
  /** It is on its way no longer. */
  end(): void;
}

export class NotedFirstCopy implements CopyBeside {
  readonly takesAfterPoint = false;
  readonly laysAside = false;
  readonly waitsForOthers = true;
  #copy: CopyBeside | null = null;

  constructor(
    readonly takesInTurn: boolean,
    private readonly steps: NotedFirstSteps,
  ) {}

  get form(): TupleForm {
    return this.#begun.form;
  }

  async watch(): Promise<void> {
    this.#copy = await this.steps.begin();
  }

  divide(): Promise<HeldRanges | null> {
    return this.#begun.divide();
  }

  take(request: CopyRequest): Promise<void> {
    return this.#begun.take(request);
  }

  compare(): Promise<void> {
    return this.#begun.compare();
  }

  settle(): Promise<SettledPiece> {
    return this.#begun.settle();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#copy?.[Symbol.asyncDispose]();
    this.steps.end();
  }

  get #begun(): CopyBeside {
    if (!this.#copy) throw new Error("a copy is asked before it is watched");
    return this.#copy;
  }
}
