// Asks for the slots that no run asks for: of connectors that are stopped, disabled or failed, and of those whose attempts fail too soon. Their
// sources keep ever more of their logs. Of those that run, a LogWatch (pipeline/) tells. What was told last of each is here.

import { concurrently, itemsOf } from "../../concurrency/concurrently.ts";
import { sleepOrStop } from "../../concurrency/sleep.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { type Status, stands } from "../../connector/status.ts";
import { gistOf, slotLog } from "../../pipeline/log-watch.ts";
import type { SlotLog } from "../../pipeline/run-reporter.ts";
import type { KeptLog } from "../../source/source.ts";
import type { State } from "../../state/open-state.ts";
import { mayFindObjects } from "../connector-cleanup.ts";
import type { StatusBoard } from "./status-board.ts";
import type { StatusWatch } from "./status-watch.ts";

/** How often it looks for slots to ask for, how old what is known of them is then, and how long an answer may take. */
export const slotPace = { lookMs: 5_000, everyMs: 60_000, answerMs: 10_000 };
const askedAtOnce = 8;

/** Another one takes its place with whatever is told: an answer that was asked for before is then too late. */
interface Known {
  readonly stands: boolean;
  /** Null: not known, or there is none. */
  readonly slot: SlotLog | null;
  /** When it was told, or asked for. */
  readonly atMs: number;
}

export class SlotWatch implements StatusWatch, AsyncDisposable {
  /** Of the connectors that are on the board: those that this replica holds. */
  readonly #known = new Map<string, Known>();
  readonly #stop = new AbortController();
  readonly #asking: Promise<void>;

  /** `ask`: what the source keeps for a connector; null: it has no slot. */
  constructor(
    private readonly state: State,
    private readonly board: StatusBoard,
    private readonly ask: (connector: ConnectorConfig, signal: AbortSignal) => Promise<KeptLog | null>,
    private readonly pace = slotPace,
    private readonly nowMs = () => performance.now(),
  ) {
    board.addWatch(this);
    this.#asking = this.#askUntilStopped();
  }

  /** Null: not known, or there is none. */
  slotOf(id: string): SlotLog | null {
    return this.#known.get(id)?.slot ?? null;
  }

  /** When a run begins, or is over, what was told before no longer holds. A run has time to ask by itself. */
  reported(id: string, { state, status }: Status): void {
    const isOver = stands({ state, status });
    if (this.#known.get(id)?.stands === isOver && !(state.start && status.start)) return;
    const atMs = isOver ? Number.NEGATIVE_INFINITY : this.nowMs();
    this.#known.set(id, { stands: isOver, slot: null, atMs });
  }

  measuredSlot(id: string, slot: SlotLog): void {
    const known = this.#known.get(id);
    if (known) this.#known.set(id, { ...known, slot, atMs: this.nowMs() });
  }

  released(id: string): void {
    this.#known.delete(id);
  }

  forget(id: string): void {
    this.#known.delete(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#asking;
  }

  async #askUntilStopped(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const ids = itemsOf([...this.#known.keys()], signal);
      await concurrently(askedAtOnce, ids, (id) => this.#askIfDue(id));
      await sleepOrStop(this.pace.lookMs, signal);
    }
  }

  async #askIfDue(id: string): Promise<void> {
    const known = this.#known.get(id);
    if (!known || this.nowMs() - known.atMs < this.pace.everyMs) return;
    if (!known.stands && !this.board.status(id).status.retry) return;
    const asked = { ...known, atMs: this.nowMs() };
    this.#known.set(id, asked);
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(this.pace.answerMs)]);
    // A source that is away is no news: it is asked again.
    const kept = await untilAborted(this.#keptLog(id, signal), signal).catch(() => undefined);
    if (this.#known.get(id) !== asked) return;
    if (kept) this.board.measuredSlot(id, slotLog(kept));
    else this.#known.set(id, { ...asked, slot: null });
    if (asked.stands && kept !== undefined) this.#warn(id, kept?.warning ?? null);
  }

  async #keptLog(id: string, signal: AbortSignal): Promise<KeptLog | null> {
    const stored = await this.state.connectors.find(id);
    if (!stored || stored.deletion || !(await mayFindObjects(this.state, stored))) return null;
    return await this.ask(stored.config, signal);
  }

  /** A failure is shown rather than what follows from it. */
  #warn(id: string, reason: string | null): void {
    const { status } = this.board.status(id);
    if (status.failed || status.retry || gistOf(status.warning?.reason ?? null) === gistOf(reason)) return;
    const health = reason === null ? { complete: {} } : { warning: { reason } };
    this.board.reportHealth(id, this.board.runId(id) ?? "", "Connector", health);
  }
}
