// Moves the checkpoint past windows that are delivered, and reports it once it is durable. Moves that come during a save share the
// next one. The ledger decides which windows are delivered.

import { type Checkpoint, isDone } from "../../../change/checkpoint.ts";
import { zeroLsn } from "../../../change/lsn.ts";
import type { RecordKeeper } from "../record/record-keeper.ts";
import type { VersionStep } from "../record/sink-record.ts";
import type { LedgerProgress } from "./window-ledger.ts";

export interface ProgressReportOptions {
  readonly keeper: RecordKeeper;
  /** The durable checkpoint has moved. */
  readonly durable: (progress: LedgerProgress) => void;
  /** The record could not be saved. */
  readonly failed: (error: unknown) => void;
}

/** A checkpoint right after the change before the step may be from before the step. */
function isTaken(checkpoint: Checkpoint, { behind, version }: VersionStep): boolean {
  return isDone(checkpoint, behind) && checkpoint.lastVersion >= version;
}

const noProgress: LedgerProgress = {
  checkpoint: { resumeLsn: zeroLsn, partial: null, lastVersion: 0n },
  rows: 0,
  bytes: 0,
};

export class ProgressReport {
  #unreported: LedgerProgress | null = null;
  #reporting: Promise<void> | null = null;

  constructor(private readonly options: ProgressReportOptions) {}

  add(progress: LedgerProgress): void {
    const { keeper } = this.options;
    const windowEnds = keeper.record.windowEnds.filter((end) => !isDone(progress.checkpoint, end));
    const versionSteps = keeper.record.versionSteps.filter((step) => !isTaken(progress.checkpoint, step));
    keeper.change({ checkpoint: progress.checkpoint, windowEnds, versionSteps });
    const before = this.#unreported;
    this.#unreported = {
      checkpoint: progress.checkpoint,
      rows: progress.rows + (before?.rows ?? 0),
      bytes: progress.bytes + (before?.bytes ?? 0),
    };
    this.#reporting ??= this.#saveAndReport();
  }

  /** Resolves when all that was added is durable and reported, or has failed. */
  async settled(): Promise<void> {
    while (this.#reporting) await this.#reporting;
  }

  async #saveAndReport(): Promise<void> {
    const { keeper, durable, failed } = this.options;
    try {
      while (this.#unreported) {
        let covered = noProgress;
        await keeper.save(() => {
          covered = this.#unreported ?? noProgress;
          this.#unreported = null;
        });
        if (covered !== noProgress) durable(covered);
      }
    } catch (error) {
      failed(error);
    } finally {
      this.#reporting = null;
    }
  }
}
