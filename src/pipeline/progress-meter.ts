// Counts what a run does, and reports it about twice a second while something moves.

import type { ChangeBatch } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import { formatLsn, type Lsn } from "../change/lsn.ts";
import type { Progress } from "./run-reporter.ts";

const reportEveryMs = 500;

export class ProgressMeter implements Disposable {
  readonly progress: Progress = {
    rowsIn: 0,
    rowsDurable: 0,
    bytesDurable: 0,
    snapshot: { tables: 0, tablesDone: 0, copying: 0, rows: 0, bytes: 0, estimatedRows: 0 },
    lagBytes: 0,
    latencyMs: null,
    resumeLsn: null,
  };
  /** Commit times of what was written and is not yet durable, in rising order. */
  readonly #inFlight: { readonly resumeLsn: Lsn; readonly commitTimeUs: bigint }[] = [];
  /** Under way. */
  readonly #tables = new Set<string>();
  readonly #copying = new Map<string, { rows: number; bytes: number }>();
  #copied = { rows: 0, bytes: 0 };
  /** Rows of copied ranges, by table. */
  readonly #inRanges = new Map<string, number>();
  #last = "";
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(
    private readonly report: (progress: Progress) => void,
    private readonly lagBytes: () => number,
    private readonly nowMs: () => number = Date.now,
  ) {
    this.#timer = setInterval(() => this.flush(), reportEveryMs);
  }

  writing({ count, transactions, endsInTransaction, inProgress, resumeLsn }: ChangeBatch): void {
    this.progress.rowsIn += count;
    if (inProgress && inProgress.outcome !== "committed") return;
    const commitTimeUs = transactions.commitTimeUs[transactions.count - 1];
    if (transactions.count > 0 && commitTimeUs !== undefined && !endsInTransaction) {
      this.#inFlight.push({ resumeLsn, commitTimeUs });
    }
  }

  durable(checkpoint: Checkpoint, rows: number, bytes: number): void {
    this.progress.rowsDurable += rows;
    this.progress.bytesDurable += bytes;
    this.progress.resumeLsn = formatLsn(checkpoint.resumeLsn);
    let done: bigint | null = null;
    while (this.#inFlight[0] && this.#inFlight[0].resumeLsn <= checkpoint.resumeLsn) {
      done = this.#inFlight.shift()?.commitTimeUs ?? null;
    }
    if (done !== null) this.progress.latencyMs = Math.max(0, this.nowMs() - Number(done / 1000n));
  }

  /** A table's copy has begun; it ends with `copied` or `gaveUp`. */
  began(table: string): void {
    this.#tables.add(table);
    this.#sumCopies();
  }

  /** The copy of a table, or of one of its ranges, is so far. */
  copying(part: string, rows: number, bytes: number): void {
    this.#copying.set(part, { rows, bytes });
    this.#sumCopies();
  }

  /** There are `rows` in those of the table's ranges that are copied, by an earlier run or this one. */
  resumed(table: string, rows: number): void {
    const counted = this.#inRanges.get(table) ?? 0;
    this.#inRanges.set(table, rows);
    this.#copied = { ...this.#copied, rows: this.#copied.rows + rows - counted };
    this.#sumCopies();
  }

  rangeCopied(table: string, part: string): void {
    const { rows } = this.#copying.get(part) ?? { rows: 0 };
    this.#inRanges.set(table, (this.#inRanges.get(table) ?? 0) + rows);
    this.#ended(part);
  }

  copied(table: string): void {
    this.#tables.delete(table);
    this.#inRanges.delete(table);
    this.progress.snapshot.tablesDone++;
    this.#ended(table);
  }

  /** What was copied of the table is undone. */
  gaveUp(table: string): void {
    this.#tables.delete(table);
    for (const part of this.#copying.keys()) {
      if (part === table || part.startsWith(`${table} `)) this.#copying.delete(part);
    }
    this.#sumCopies();
  }

  flush(): void {
    this.progress.lagBytes = this.lagBytes();
    const text = JSON.stringify(this.progress);
    if (text === this.#last) return;
    this.#last = text;
    this.report(structuredClone(this.progress));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.flush();
  }

  #ended(part: string): void {
    const { rows, bytes } = this.#copying.get(part) ?? { rows: 0, bytes: 0 };
    this.#copying.delete(part);
    this.#copied = { rows: this.#copied.rows + rows, bytes: this.#copied.bytes + bytes };
    this.#sumCopies();
  }

  #sumCopies(): void {
    const { snapshot } = this.progress;
    snapshot.copying = this.#tables.size;
    snapshot.rows = this.#copied.rows;
    snapshot.bytes = this.#copied.bytes;
    for (const { rows, bytes } of this.#copying.values()) {
      snapshot.rows += rows;
      snapshot.bytes += bytes;
    }
  }
}
