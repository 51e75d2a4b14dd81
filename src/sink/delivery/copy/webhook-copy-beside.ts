// A copy of a table that goes to a webhook while the stream does, as the pipeline sees it. Which of its rows go out, and with what
// version, is decided at the other end: beside-copies.ts.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { untilAborted } from "../../../change/until-aborted.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CopyBeside, CopyRequest, HeldRanges, SettledPiece } from "../../sink.ts";
import type { SinkLine } from "../line/sink-line.ts";

export class WebhookCopyBeside implements CopyBeside {
  readonly form = "text";
  readonly takesAfterPoint = true;
  readonly takesInTurn = false;
  readonly laysAside = false;
  readonly waitsForOthers = false;

  constructor(
    protected readonly line: SinkLine,
    protected readonly number: number,
    private readonly stop: AbortSignal,
    /** What the stream brings of its table waits for it. */
    private readonly isWhole: boolean,
    private readonly held: HeldRanges | null = null,
  ) {}

  get goBefore(): CopyBeside["goBefore"] {
    if (!this.isWhole) return undefined;
    return async ({ lsn, timeUs }) => {
      const state = await this.ask({ type: "beside.point", beside: this.number, lsn, timeUs });
      return state?.isBeside === true;
    };
  }

  /** Where nothing is recorded, what is delivered of a copy that dies is not known. */
  async divide(): Promise<HeldRanges | null> {
    return this.held ?? { ranges: [], rows: 0 };
  }

  /** Returns when the rows are delivered. */
  async take(request: CopyRequest): Promise<void> {
    this.requireUnspoiled(await untilAborted(this.line.copy(request, "", this.number), this.stop));
  }

  /** A receiver cannot be asked for what it has. */
  async compare(): Promise<void> {}

  async settle(): Promise<SettledPiece> {
    const state = await this.ask({ type: "beside.settle", beside: this.number });
    this.requireUnspoiled(state?.spoiledBy ?? null);
    const { keys = [], isMore = false } = state?.settled ?? {};
    return { isMore, isHeld: false, owed: keys };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.line.client.post({ type: "beside.end", beside: this.number });
  }

  /** A receiver may take as long as it likes. */
  protected ask(question: Parameters<SinkLine["client"]["ask"]>[0]) {
    return untilAborted(this.line.client.ask(question), this.stop);
  }

  protected requireUnspoiled(reason: string | null): void {
    if (reason !== null) throw new MillraceError("table_changed", reason);
  }
}

export interface FirstCopyEvents {
  /** It is made, durably. */
  made(): void;
  /** It is made, or given up. */
  ended(): void;
}

/** Of a table that has none: what is delivered of it outlives it. */
export class WebhookFirstCopyBeside extends WebhookCopyBeside {
  #begun: HeldRanges | null = null;
  #spoiledBy: string | null = null;

  constructor(
    line: SinkLine,
    number: number,
    stop: AbortSignal,
    isWhole: boolean,
    private readonly handle: number,
    readonly table: TableShape,
    private readonly events: FirstCopyEvents,
  ) {
    super(line, number, stop, isWhole);
  }

  /** It is on its way, and counts when it is made. */
  get isSound(): boolean {
    return this.#spoiledBy === null;
  }

  /** The table is not selected any more, or another one. */
  spoil(): void {
    this.line.client.post({ type: "beside.spoil", beside: this.number });
    this.#spoiledBy ??= `Table ${qualifiedName(this.table.relation)} is not what it was when its copy began.`;
  }

  async watch(): Promise<void> {
    const { number: beside, handle, table } = this;
    const state = await this.ask({ type: "beside.begin", beside, handle, table, isFirst: true });
    this.requireUnspoiled(state?.isBeside ? null : "The table cannot be copied beside the stream.");
    this.#begun = state?.begun ?? null;
  }

  override async divide(): Promise<HeldRanges | null> {
    return this.#begun;
  }

  override async settle(): Promise<SettledPiece> {
    this.requireUnspoiled(this.#spoiledBy);
    const piece = await super.settle();
    if (piece.owed.length === 0 && !piece.isMore) this.events.made();
    return piece;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.events.ended();
    await super[Symbol.asyncDispose]();
  }
}
