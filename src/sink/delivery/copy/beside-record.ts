// What a copy beside the stream leaves in the sink's record. A table's copy counts once it is made. A replay sends rows again, and leaves
// what is recorded of the table's copy as it is: it records the ranges that it has sent, and takes that back at its end.

import type { Lsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { DurableRanges } from "../../copy-sink.ts";
import { keyTextsHash } from "../../format/row-identity.ts";
import type { ReplayOf } from "../../replay-sink.ts";
import { replayMark } from "../record/chunked-copy.ts";
import { IncompleteKeys } from "../record/incomplete-keys.ts";
import type { CopySubject } from "./copy-context.ts";
import type { RecordedCopies } from "./recorded-copies.ts";
import { type MomentOf, replayMoment } from "./replay.ts";

export interface BesideRecord {
  /** Tells its rows from those of others in their idempotency keys; null: their point does. */
  readonly moment: MomentOf | null;
  /** The rows that are to come whole; null: every one that the stream brings in part. */
  readonly wanted: Set<bigint> | null;
  /** Goes on with the ranges that are delivered. Null: none are recorded. */
  begin(): DurableRanges | null;
  /** Rows that are known to be incomplete. */
  incomplete(isRecorded: boolean): IncompleteKeys;
  /** What is recorded of it is still there. */
  holds(): boolean;
  endRange(range: PageRange, point: Lsn, rows: number): void;
  /** All is delivered; of these rows a part alone. */
  made(last: Lsn, incomplete: IncompleteKeys): void;
}

/** Of a copy of the table. */
export class CopyRecord implements BesideRecord {
  readonly moment = null;
  readonly wanted = null;

  constructor(
    private readonly subject: CopySubject,
    private readonly recorded: RecordedCopies,
  ) {}

  begin(): DurableRanges | null {
    return this.recorded.begin(this.subject.shape, this.subject.isFirst, true);
  }

  incomplete(isRecorded: boolean): IncompleteKeys {
    const known = this.recorded.incompleteOf(this.subject.table.name);
    // Those of a copy before wait for their own copy; this one may bring them whole.
    return isRecorded ? known : new IncompleteKeys(known.list());
  }

  holds(): boolean {
    return this.recorded.holds(this.subject.shape, this.subject.isFirst);
  }

  endRange(range: PageRange, point: Lsn, rows: number): void {
    this.recorded.endRange(this.subject.table.name, range, point, rows);
  }

  made(last: Lsn, incomplete: IncompleteKeys): void {
    this.recorded.madeBeside(this.subject.shape, this.subject.isFirst, last, incomplete.list());
  }
}

/** Of rows that are sent again. */
export class ReplayRecord implements BesideRecord {
  readonly moment: MomentOf;
  readonly wanted: Set<bigint> | null;
  /** Ranges that another replay, or a copy, has recorded do not count for this one. */
  readonly #mark: string;

  constructor(
    private readonly subject: CopySubject,
    private readonly recorded: RecordedCopies,
    private readonly replay: ReplayOf,
  ) {
    this.moment = (version) => replayMoment(replay.id, version);
    this.wanted = replay.keys && new Set(replay.keys.map(keyTextsHash));
    this.#mark = replayMark(subject.shape, replay.id);
  }

  begin(): DurableRanges | null {
    return this.replay.keys ? null : this.recorded.begin(this.subject.shape, false, true, this.#mark);
  }

  incomplete(isRecorded: boolean): IncompleteKeys {
    return isRecorded ? this.recorded.incompleteOf(this.subject.table.name) : new IncompleteKeys();
  }

  holds(): boolean {
    return this.recorded.holds(this.subject.shape, false, this.#mark);
  }

  endRange(range: PageRange, point: Lsn, rows: number): void {
    this.recorded.endRange(this.subject.table.name, range, point, rows);
  }

  made(): void {
    if (this.holds()) this.recorded.forget(this.subject.table.name);
  }
}
