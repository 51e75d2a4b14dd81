// Counts what a run does, and reports it once a second while something changes.

import { bytesOfTuples, type ChangeBatch, type TransactionTable } from "../change/change-batch.ts";
import type { Checkpoint } from "../change/checkpoint.ts";
import { formatLsn, type Lsn, lsn } from "../change/lsn.ts";
import { qualifiedName, type TableShape } from "../change/relation.ts";
import { sharedInterval } from "../measure/shared-interval.ts";
import type { CopyPhase } from "../sink/copy-sink.ts";
import { BatchMeasures } from "./batch-measures.ts";
import { CountedChanges } from "./counted-changes.ts";
import type { Progress, SlotLog } from "./run-reporter.ts";
import type { CopyStates } from "./table-states.ts";

const reportEveryMs = 1_000;

interface Commit {
  readonly lsn: Lsn;
  readonly timeUs: bigint;
}

/** A batch's first and last commit. */
interface InFlight {
  readonly first: Commit;
  readonly last: Commit;
  /** By the monotonic clock. */
  readonly handedAtMs: number;
}

export class ProgressMeter implements CopyStates, Disposable {
  readonly progress: Progress = {
    rowsIn: 0,
    bytesIn: 0,
    rowsDurable: 0,
    bytesDurable: 0,
    snapshot: { tables: 0, tablesDone: 0, copying: 0, rows: 0, bytes: 0, estimatedRows: 0 },
    lagBytes: null,
    latencyMs: null,
    behindSinceMs: null,
    resumeLsn: null,
    batches: new BatchMeasures().distributions(),
    slot: null,
    counted: null,
  };
  readonly #measures = new BatchMeasures();
  /** What transactions in progress have brought, by xid. */
  readonly #open = new Map<number, { readonly rows: number; readonly bytes: number }>();
  /** Batches that are written and not yet durable, in the order of commits. */
  readonly #inFlight: InFlight[] = [];
  /** Tables to be copied, with the source's estimate of their rows. */
  readonly #expected = new Map<string, number>();
  readonly #made = new Set<string>();
  /** Tables whose copies are under way. */
  readonly #tables = new Set<string>();
  readonly #copying = new Map<string, { rows: number; bytes: number }>();
  /** Of tables whose rows are all read. */
  readonly #phases = new Map<string, CopyPhase>();
  #copied = { rows: 0, bytes: 0 };
  /** Counts changes of the progress, except those of `#measures`. */
  #changes = 0;
  #reportedChanges = -1;
  readonly #reporting: Disposable;

  constructor(
    private readonly report: (progress: Progress) => void,
    private readonly lagBytes: () => number | null,
    private readonly slot: () => SlotLog | null = () => null,
    private readonly counted = new CountedChanges(),
    private readonly nowMs: () => number = Date.now,
    private readonly monotonic: () => number = () => performance.now(),
  ) {
    Object.assign(this.progress, counted.sums);
    this.#reporting = sharedInterval(reportEveryMs, () => this.flush());
  }

  /** Counts the batch from the change `first` on, and hands it to the sink by `write`. `first`: see `ChangeCounter.count`. */
  async write(
    batch: ChangeBatch,
    write: (batch: ChangeBatch) => Promise<void>,
    first: number | null = 0,
  ): Promise<void> {
    const handedAtMs = this.monotonic();
    this.#came(batch, first);
    this.#handed(batch, handedAtMs);
    await write(batch);
    if (batch.count > 0) this.#measures.write.observe((this.monotonic() - handedAtMs) / 1000);
  }

  /** A transaction in progress counts once it is committed: until then it may be given up, and come again. */
  #came(batch: ChangeBatch, first: number | null): void {
    const { inProgress } = batch;
    const bytes = bytesOfTuples(batch) - bytesOfTuples(batch, first ?? batch.count);
    const came = { rows: batch.count - (first ?? batch.count), bytes };
    if (!inProgress) {
      this.#add(came.rows, came.bytes);
      return;
    }
    const before = this.#open.get(inProgress.xid) ?? { rows: 0, bytes: 0 };
    this.#open.delete(inProgress.xid);
    if (first === null || inProgress.outcome === "aborted") return;
    const whole = { rows: before.rows + came.rows, bytes: before.bytes + came.bytes };
    if (inProgress.outcome === "open") this.#open.set(inProgress.xid, whole);
    else this.#add(whole.rows, whole.bytes);
  }

  #add(rows: number, bytes: number): void {
    const { sums, last } = this.counted;
    this.progress.rowsIn = sums.rowsIn += rows;
    this.progress.bytesIn = sums.bytesIn += bytes;
    this.progress.counted = last;
  }

  #handed(batch: ChangeBatch, handedAtMs: number): void {
    this.#changes++;
    const { count, transactions, inProgress } = batch;
    if (count > 0) this.#measures.rows.observe(count);
    if (inProgress && inProgress.outcome !== "committed") return;
    // A shape has no time, and is no commit.
    const known = knownCommits(transactions);
    if (known === null) return;
    const { first } = known;
    const last = { ...known.last, lsn: inProgress?.commitLsn ?? known.last.lsn };
    // A transaction in many batches counts from its first batch.
    if (this.#inFlight.at(-1)?.last.lsn === last.lsn) return;
    this.#inFlight.push({ first, last, handedAtMs });
  }

  /** The stream resumes here: everything before is durable. */
  resumesAt(checkpoint: Checkpoint): void {
    this.#changes++;
    this.progress.resumeLsn = formatLsn(checkpoint.resumeLsn);
  }

  durable(checkpoint: Checkpoint, rows: number, bytes: number): void {
    this.#changes++;
    const { sums } = this.counted;
    this.progress.rowsDurable = sums.rowsDurable += rows;
    this.progress.bytesDurable = sums.bytesDurable += bytes;
    this.progress.resumeLsn = formatLsn(checkpoint.resumeLsn);
    const isDone = ({ last }: InFlight) => last.lsn < checkpoint.resumeLsn;
    for (let oldest = this.#inFlight[0]; oldest && isDone(oldest); oldest = this.#inFlight[0]) {
      this.#inFlight.shift();
      const latencyMs = Math.max(0, this.nowMs() - msOf(oldest.last));
      this.progress.latencyMs = latencyMs;
      this.#measures.latency.observe(latencyMs / 1000);
      this.#measures.durable.observe((this.monotonic() - oldest.handedAtMs) / 1000);
    }
  }

  /** The table is to be copied, maybe again. */
  expects(table: TableShape): void {
    const { estimatedRows } = table;
    this.#guess(table, estimatedRows);
    this.#expected.set(nameOf(table), estimatedRows);
    this.#made.delete(nameOf(table));
    this.#countTables();
  }

  /** A table's copy has begun; it ends with `copied` or `gaveUp`. */
  began(table: TableShape): void {
    this.#tables.add(nameOf(table));
    this.#sumCopies();
  }

  /** What the table's copy has taken so far, with what an earlier run took. */
  copying(table: TableShape, rows: number, bytes: number): void {
    this.#copying.set(nameOf(table), { rows, bytes });
    this.#sumCopies();
  }

  /** All rows of the table are read. */
  inPhase(table: TableShape, phase: CopyPhase): void {
    this.#phases.set(nameOf(table), phase);
    this.#sumCopies();
  }

  copied(table: TableShape): void {
    const name = nameOf(table);
    const { rows, bytes } = this.#copying.get(name) ?? { rows: 0, bytes: 0 };
    this.#made.add(name);
    this.#countTables();
    this.#copied = { rows: this.#copied.rows + rows, bytes: this.#copied.bytes + bytes };
    this.#ended(name);
  }

  /** The table's copy failed. `unreadable`: it is tried again. Left out: the next look at the tables tells whether it is missing. */
  gaveUp(table: TableShape, unreadable?: string): void {
    if (unreadable === undefined) {
      this.#guess(table, 0);
      this.#expected.delete(nameOf(table));
      this.#countTables();
    }
    this.#ended(nameOf(table));
  }

  /** How far the comparison after a lost slot is; null: there is nothing to compare. */
  resuming(resume: Progress["resume"] | null): void {
    this.#changes++;
    if (resume) this.progress.resume = resume;
    else delete this.progress.resume;
  }

  flush(): void {
    const { progress } = this;
    const [lagBytes, slot] = [this.lagBytes(), this.slot()];
    const changes = this.#changes + this.#measures.count;
    // An idle run reports nothing, and costs nothing.
    if (changes === this.#reportedChanges && lagBytes === progress.lagBytes && slot === progress.slot) return;
    this.#reportedChanges = changes;
    const [oldest] = this.#inFlight;
    progress.lagBytes = lagBytes;
    progress.slot = slot;
    progress.behindSinceMs = oldest ? msOf(oldest.first) : null;
    progress.batches = this.#measures.distributions();
    this.report(structuredClone(progress));
  }

  [Symbol.dispose](): void {
    this.#reporting[Symbol.dispose]();
    this.flush();
  }

  #ended(name: string): void {
    for (const each of [this.#tables, this.#phases, this.#copying]) each.delete(name);
    this.#sumCopies();
  }

  #guess(table: TableShape, rows: number): void {
    this.progress.snapshot.estimatedRows += rows - (this.#expected.get(nameOf(table)) ?? 0);
  }

  #countTables(): void {
    this.#changes++;
    const { snapshot } = this.progress;
    snapshot.tables = this.#expected.size;
    snapshot.tablesDone = this.#made.size;
  }

  /** Of the tables that are missing, the one that is the least far. */
  #phase(): CopyPhase | "Reading" {
    const isRead = (table: string) => this.#made.has(table) || this.#phases.has(table);
    if (this.#phases.size === 0 || ![...this.#expected.keys()].every(isRead)) return "Reading";
    return [...this.#phases.values()].includes("Writing") ? "Writing" : "Finishing";
  }

  #sumCopies(): void {
    this.#changes++;
    const { snapshot } = this.progress;
    snapshot.copying = this.#tables.size;
    snapshot.phase = this.#phase();
    snapshot.rows = this.#copied.rows;
    snapshot.bytes = this.#copied.bytes;
    for (const { rows, bytes } of this.#copying.values()) {
      snapshot.rows += rows;
      snapshot.bytes += bytes;
    }
  }
}

/** The first and the last commit whose times are known; null: there is none. */
function knownCommits({ count, commitLsn, commitTimeUs }: TransactionTable) {
  const times = commitTimeUs.subarray(0, count);
  const isKnown = (timeUs: bigint) => timeUs !== 0n;
  const [first, last] = [times.findIndex(isKnown), times.findLastIndex(isKnown)];
  const commit = (index: number): Commit => ({ lsn: lsn(commitLsn[index]!), timeUs: times[index]! });
  return first < 0 ? null : { first: commit(first), last: commit(last) };
}

const nameOf = ({ relation }: TableShape) => qualifiedName(relation);

const msOf = ({ timeUs }: Commit) => Number(timeUs / 1000n);
