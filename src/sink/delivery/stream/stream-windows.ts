// Cuts the stream into windows, and the rows of each window into requests. A window ends at a size that its own content decides, or
// when time asks for it. Ends that time asked for, and how far the stream had been received, are durable before a request is sent.
// After a restart the stream begins at a window's start, and recorded ends are kept. Time ends no window before all that had been
// received is there again. So the same requests come again.

import { type ChangeBatch, positionOf } from "../../../change/change-batch.ts";
import { isDone, type Position } from "../../../change/checkpoint.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { Waiters } from "../../../concurrency/waiters.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { releaseArena, retainArena } from "../../format/values/arena-references.ts";
import { isBefore, type StreamPoint, type VersionStep, withEnd } from "../record/sink-record.ts";
import { placeOfCopy } from "../record/standing.ts";
import type { StreamOutlet } from "../transport.ts";
import { ProgressReport } from "./progress-report.ts";
import { SentReach } from "./sent-reach.ts";
import {
  beginningOfUnfinished,
  bytesOf,
  isLastOfTransaction,
  placeAfterBatch,
  placeAfterChange,
  type StreamPlace,
} from "./stream-place.ts";
import { WindowLedger } from "./window-ledger.ts";
import type { StreamWindowsOptions } from "./window-options.ts";

/** So many changes, and I/O happens. */
const changesPerYield = 1024;

export class StreamWindows {
  readonly #outlet: StreamOutlet;
  readonly #ledger = new WindowLedger();
  /** Ends that were recorded before the restart and are still to come, in order. */
  readonly #recorded: Position[];
  /** Versions that copies took between changes that come again, in order. */
  readonly #steps: VersionStep[];
  /** What had been received before the restart; null once it is there again. */
  #replayUntil: Position | null;
  /** The change that is being cut into requests. */
  #batch: ChangeBatch | null = null;
  #index = 0;
  /** Where the stream stands once the requests of all that was taken are delivered. */
  #cursor: StreamPoint;
  #last: Position | null = null;
  /** All that is not committed is of the transaction that the stream is in. */
  #isAlone = false;
  #openedMs = 0;
  /** Nothing was taken since the last commit, which may lie amid a transaction. */
  #isFresh = true;
  /** Why a change could not be added, or not all of its rows. */
  #torn: { readonly error: unknown } | null = null;
  readonly #report: ProgressReport;
  readonly #reach: SentReach;
  readonly #idleWaiters = new Waiters();
  readonly #closeWaiters = new Waiters();

  constructor(private readonly options: StreamWindowsOptions) {
    const { record } = options.keeper;
    this.#report = new ProgressReport(options);
    this.#reach = new SentReach(options);
    this.#cursor = record.checkpoint;
    this.#recorded = [...record.windowEnds];
    this.#steps = [...record.versionSteps];
    this.#stepOver((step) => isDone(record.checkpoint, step.behind));
    const { reached } = record;
    this.#replayUntil = options.cutsMatter && reached && !isDone(record.checkpoint, reached) ? reached : null;
    this.#outlet = options.outlet({
      sent: (rows) => this.#sent(rows),
      save: () => options.keeper.save(),
      reach: () => void this.#reach.move(this.#position()),
      failed: options.failed,
    });
  }

  /**
   * When the open window received its first change, by the monotonic clock; null where time cannot end it.
   */
  get openedMs(): number | null {
    return this.#ledger.open.changes > 0 && this.#replayUntil === null ? this.#openedMs : null;
  }

  /** Ends of windows that time ended and that are not delivered. */
  get recordedEnds(): number {
    return this.options.keeper.record.windowEnds.length;
  }

  /** All that was committed before it has been taken. */
  get resumeLsn(): Lsn {
    return this.#cursor.resumeLsn;
  }

  /** What copies bring now comes after this change. */
  get behind(): Position {
    const [done, last] = [placeOfCopy(this.options.keeper.record, this.#cursor), this.#position()];
    return last && isBefore(done, last) ? last : done;
  }

  /** Takes a batch. Returns when its rows are in requests. Waits while too much is in flight. */
  async take(batch: ChangeBatch, tables: readonly CompiledTable[]): Promise<void> {
    const { rows, keyless, commitPoint } = this.options;
    const outlet = this.#outlet;
    retainArena(batch.arena);
    const unfinished = commitPoint ? beginningOfUnfinished(this.#cursor, batch) : null;
    for (let i = 0; i < batch.count; i++) {
      const table = tables[batch.relation[i]!]!;
      if (i === unfinished) this.#isAlone = await this.#commitBefore();
      if (this.#recorded.length > 0) this.#endBefore(batch, i);
      if (this.#steps.length > 0) this.#stepOver(({ behind }) => isBefore(behind, positionOf(batch, i)));
      const window = this.#ledger.open;
      if (window.changes === 0) this.#openedMs = this.options.monotonic();
      this.#batch = batch;
      this.#index = i;
      this.#isFresh = false;
      try {
        if (keyless.brings(batch, i, table)) rows.pass(batch, i, table, outlet);
        else rows.add(batch, i, table, outlet);
      } catch (error) {
        this.#torn = { error };
        throw error;
      }
      window.bytes += bytesOf(batch, i);
      window.changes++;
      this.#endIfFull(batch, i);
      if (!outlet.hasCapacity) {
        this.#reach.follow(this.#position());
        await outlet.untilCapacity();
      } else if (i % changesPerYield === changesPerYield - 1) await this.options.yieldToIo();
      if (commitPoint?.isWanted && isLastOfTransaction(batch, i)) {
        commitPoint.wake();
        await this.options.yieldToIo();
      }
    }
    if (batch.count > 0) this.#last = positionOf(batch, batch.count - 1);
    this.#batch = null;
    releaseArena(batch.arena);
    rows.reached(batch.resumeLsn, outlet);
    this.#cursor = this.#standing(placeAfterBatch(this.#cursor, batch));
    if (this.#replayUntil && isDone(this.#cursor, this.#replayUntil)) this.#replayUntil = null;
    // The source decides when it is worth a save that there was nothing.
    if (batch.count === 0) this.pass();
  }

  /**
   * Ends the open window now, because time or a flush asks for it. A flush during a replay may cut requests otherwise than before the
   * restart: their rows then come again under other keys.
   */
  end(): void {
    if (this.#ledger.open.changes === 0 || this.#last === null) return;
    this.#cursor = { ...this.#cursor, lastVersion: this.#lastVersion() };
    if (this.options.cutsMatter) {
      const { keeper } = this.options;
      keeper.change({ windowEnds: withEnd(keeper.record.windowEnds, this.#last) });
      this.#reach.move(this.#last);
    }
    this.#close(this.#cursor);
  }

  /** Moves the checkpoint past what held no changes for the sink. Where something is in flight, records how far that is. */
  pass(): void {
    const { keeper } = this.options;
    if (!this.#ledger.isIdle) this.#reach.follow(this.#position());
    else if (this.#cursor.resumeLsn > keeper.record.checkpoint.resumeLsn)
      this.#report.add({ checkpoint: this.#cursor, rows: 0, bytes: 0 });
  }

  /** The stream is between two transactions, or has brought nothing since the last commit. */
  get isBetween(): boolean {
    if (this.#isFresh) return true;
    return this.#batch ? isLastOfTransaction(this.#batch, this.#index) : this.#cursor.partial === null;
  }

  /** Ends the open window where the stream is, also amid a batch: all that was added up to here is committed with the record. */
  settle(): void {
    if (this.#torn) throw this.#torn.error;
    if (this.#batch) {
      this.#last = positionOf(this.#batch, this.#index);
      this.#cursor = this.#standing(placeAfterChange(this.#cursor, this.#batch, this.#index));
    }
    this.end();
    this.pass();
    this.#isFresh = true;
  }

  /** Resolves when what is delivered by now is durable and reported, or has failed. Nothing is sent any more. */
  async settled(): Promise<void> {
    this.pass();
    if (!this.#ledger.isIdle) this.#reach.follow(this.#position(), true);
    await this.#report.settled();
  }

  /** Resolves when all that was taken was submitted: what is submitted of the same rows from then on is sent after it. */
  async submitted(): Promise<void> {
    if (this.#ledger.open.changes > 0) await this.#closeWaiters.change();
  }

  /**
   * Ends the open window and resolves when all that was taken is durable, but for the beginning of a transaction that can be committed whole.
   */
  async flush(): Promise<void> {
    const { commitPoint } = this.options;
    // Transactions are committed whole.
    if (commitPoint?.isHere === false && !this.isBetween && this.#isAlone) return;
    this.end();
    if (!this.isBetween) commitPoint?.hurry();
    while (!this.#ledger.isIdle) {
      await this.#idleWaiters.change();
    }
    this.pass();
    await this.#report.settled();
  }

  /**
   * Gives out one version for rows of a copy, above all that were given out. The record's next save makes it durable, and changes that
   * follow wait for that save: so they come again with the versions that they had.
   */
  takeVersion(timeUs: bigint): number {
    const { rows, keeper } = this.options;
    rows.lastVersion = Math.max(rows.lastVersion + 1, Number(timeUs));
    const version = this.#lastVersion();
    this.#outlet.tookVersion();
    this.#cursor = { ...this.#cursor, lastVersion: version };
    const { checkpoint, versionSteps } = keeper.record;
    const behind = this.#position();
    if (behind) keeper.change({ versionSteps: [...versionSteps, { behind, version }] });
    else keeper.change({ checkpoint: { ...checkpoint, lastVersion: version } });
    return rows.lastVersion;
  }

  /**
   * Commits what comes before a transaction that comes in pieces. False: it cannot be committed here, as a chunk of a copy is under way, which
   * the stream does not wait for.
   */
  async #commitBefore(): Promise<boolean> {
    const { commitPoint, keeper } = this.options;
    if (!commitPoint?.isFree || !this.isBetween) return false;
    commitPoint.want();
    commitPoint.wake();
    // Who reports progress says what went wrong.
    await keeper.save().catch(() => undefined);
    return true;
  }

  /** Versions of changes go on above those of the steps that come now. */
  #stepOver(comesNow: (step: VersionStep) => boolean): void {
    const { rows } = this.options;
    for (let step = this.#steps[0]; step && comesNow(step); step = this.#steps[0]) {
      this.#steps.shift();
      rows.lastVersion = Math.max(rows.lastVersion, Number(step.version));
    }
  }

  #endIfFull(batch: ChangeBatch, i: number): void {
    const { window } = this.options;
    const open = this.#ledger.open;
    const recorded = this.#recorded[0];
    const full = open.bytes >= window.maxBytes() || open.changes >= window.maxChanges;
    const atRecorded = recorded !== undefined && !isBefore(positionOf(batch, i), recorded);
    if (atRecorded) this.#recorded.shift();
    if (!full && !atRecorded) return;
    this.#cursor = this.#standing(placeAfterChange(this.#cursor, batch, i));
    this.#close(this.#cursor);
  }

  /**
   * Ends windows at recorded ends whose changes no longer come, as the selection was changed.
   */
  #endBefore(batch: ChangeBatch, i: number): void {
    const position = positionOf(batch, i);
    while (this.#recorded.length > 0 && isBefore(this.#recorded[0]!, position)) {
      this.#recorded.shift();
      if (this.#ledger.open.changes === 0) continue;
      if (i > 0) this.#cursor = this.#standing(placeAfterChange(this.#cursor, batch, i - 1));
      this.#close({ ...this.#cursor, lastVersion: this.#lastVersion() });
    }
  }

  #close(end: StreamPoint): void {
    this.#outlet.seal();
    this.#ledger.close(end);
    this.#closeWaiters.wake();
    this.#advance();
  }

  #sent(rows: number): () => void {
    const window = this.#ledger.open;
    window.pending++;
    window.rows += rows;
    return () => {
      if (--window.pending === 0) this.#advance();
    };
  }

  #advance(): void {
    const progress = this.#ledger.advance();
    if (progress) this.#report.add(progress);
    if (!this.#idleWaiters.areAny || !this.#ledger.isIdle) return;
    this.#idleWaiters.wake();
  }

  /** The last change that has been taken. */
  #position(): Position | null {
    return this.#batch ? positionOf(this.#batch, this.#index) : this.#last;
  }

  #standing(place: StreamPlace): StreamPoint {
    const transaction = place.partial && this.options.rows.transaction;
    return { ...place, lastVersion: this.#lastVersion(), ...(transaction ? { transaction } : {}) };
  }

  #lastVersion(): bigint {
    return BigInt(this.options.rows.lastVersion);
  }
}
