// A copy that is made beside the stream, which goes on for its table too (Debezium's incremental snapshot). A chunk's rows are sent once
// the stream has passed the chunk's point. Their version is above that of every change before, and below that of every change to come.
// Rows that the stream has touched since are left out: the receiver has something newer. A replay sends rows again, and leaves what is
// recorded of the table's copy as it is: it records the ranges that it has sent, and takes that back at its end.

import type { RowKey } from "../../../change/copy-part.ts";
import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { copyInvalidated } from "../../copy-invalidated.ts";
import type { DurableRanges, Settled } from "../../copy-sink.ts";
import { keyTextsHash } from "../../format/row-identity.ts";
import { type PlacedOrigin, rangesMark, replayMark } from "../record/chunked-copy.ts";
import { IncompleteKeys } from "../record/incomplete-keys.ts";
import type { ChangedRow } from "../stream/change-rows.ts";
import { type ChunkOptions, ChunkRows } from "./chunk-rows.ts";
import type { Chunk, ChunkPlace, CopySubject, DeliveryContext } from "./copy-context.ts";
import { replayMoment } from "./replay.ts";
import { TouchedHashes } from "./touched-hashes.ts";
import { UndeliveredRows } from "./undelivered-rows.ts";

/** What the rows as of a point carry. */
interface PointOrigin {
  readonly origin: PlacedOrigin;
  /** Resolves when that is durable, and what was committed before was submitted. */
  readonly isReady: Promise<unknown>;
}

export class IncrementalMessageCopy {
  readonly #touched: TouchedHashes;
  /** Ranges that are recorded under another one, by a copy or another replay, do not count for this one. */
  readonly #mark: string;
  #isStarted = false;
  /** The record has the ranges that are delivered, and which rows are incomplete. */
  #isRecorded = false;
  readonly #origins = new Map<Lsn, PointOrigin>();
  /** Chunks under way, and their points. */
  readonly #chunks = new Map<ChunkRows, Lsn>();
  #spoiledBy: string | null = null;
  /** Of a copy that is recorded and not finished. */
  #takeBack: (() => void) | null = null;
  readonly #undelivered: UndeliveredRows;

  constructor(
    readonly subject: CopySubject,
    private readonly delivering: DeliveryContext,
    maxUndelivered: number,
    maxTouched?: number,
  ) {
    const { shape, replay } = subject;
    this.#mark = replay ? replayMark(shape, replay.id) : rangesMark(shape);
    this.#undelivered = new UndeliveredRows(maxUndelivered);
    this.#touched = new TouchedHashes(maxTouched);
  }

  /** The stream touched more rows than can be kept in mind. */
  get hasOverflowed(): boolean {
    return this.#touched.isLost;
  }

  /** It counts when it is made. */
  get isSound(): boolean {
    return this.#spoiledBy === null && !this.hasOverflowed;
  }

  /** It is to begin anew: nothing tells any more which rows are newer at the receiver. */
  spoil(reason: string): void {
    this.#spoiledBy ??= reason;
    this.#cancelChunks();
  }

  /** From here on keys are kept in mind. Null: the table comes as one chunk. */
  start(isDivided: boolean): DurableRanges | null {
    this.#isStarted = true;
    const { shape, isFirst, table, replay } = this.subject;
    const { recorded } = this.delivering;
    const begun = isDivided ? recorded.begin(shape, isFirst, true, this.#mark) : null;
    this.#isRecorded = begun !== null;
    const known = recorded.incompleteOf(table.name);
    // Those of a copy before wait for their own copy; this one may bring them whole.
    this.#touched.incomplete = begun ? known : new IncompleteKeys(replay ? [] : known.list());
    this.#touched.wanted = replay?.keys ? new Set(replay.keys.map(keyTextsHash)) : null;
    return isDivided ? (begun ?? { done: [], rows: 0 }) : null;
  }

  /** The stream brings a change of the table. */
  see(row: ChangedRow): void {
    if (!this.#isStarted || !this.isSound) return;
    if (isSameShape(this.subject.table.relation, row.table.relation)) this.#touched.see(row);
    else this.spoil("was altered");
    if (this.hasOverflowed) this.spoil("had more changes than can be kept in mind");
  }

  /** Returns when rows of the chunk may come. Throws `table_changed` where the copy is to begin anew, as the calls that follow do. */
  async begin(place: ChunkPlace, options: ChunkOptions): Promise<Chunk> {
    this.#requireSound();
    const { lsn } = place;
    const { origin, isReady } = this.#originAt(place);
    if (!this.#touched.remembers(lsn)) this.spoil("was read as of a point that is past");
    this.#requireSound();
    const leftOut = { touched: this.#touched, point: lsn };
    const { table, replay } = this.subject;
    const moment = replay ? replayMoment(replay.id, origin.version) : null;
    const rows = new ChunkRows(table, origin, this.#undelivered, leftOut, { ...options, moment });
    this.#chunks.set(rows, lsn);
    this.#forgetTouched();
    await isReady;
    return { rows, end: () => this.#endChunk(rows, place) };
  }

  /** All chunks are delivered: the copy is made, durably. Rows that are incomplete are due to be copied by their keys. */
  async finish(): Promise<Settled | "incomplete"> {
    this.#requireSound();
    this.#takeBack = null;
    const incomplete = this.#recordMade();
    await this.delivering.keeper.save();
    return incomplete === 0 ? "all" : "incomplete";
  }

  /** Returns how many rows are incomplete. */
  #recordMade(): number {
    const incomplete = this.#touched.incomplete.list();
    const last = [...this.#origins.keys()].sort(byPlace).at(-1) ?? zeroLsn;
    const { shape, isFirst, table, replay } = this.subject;
    const { recorded } = this.delivering;
    if (!replay) recorded.madeIncrementally(shape, isFirst, last, incomplete);
    else if (this.#isHeld) recorded.forget(table.name);
    return incomplete.length;
  }

  /** Rows that are still to come whole. Others that the stream brings in part from here on have been sent. */
  left(): readonly RowKey[] {
    this.#requireSound();
    const keys = this.#touched.incomplete.list();
    // What is recorded goes on being so, for another attempt.
    this.#touched.incomplete = new IncompleteKeys(keys);
    this.#touched.wanted = new Set(keys.map(keyTextsHash));
    return keys;
  }

  /** It is made, or given up. Rows that are in no request yet are not sent. */
  end(): void {
    this.#cancelChunks();
    this.#takeBack?.();
    this.delivering.recorded.ended(this.subject.table.name);
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    this.#undelivered.close();
  }

  async #endChunk(rows: ChunkRows, { part, lsn }: ChunkPlace): Promise<void> {
    await rows.deliver().catch((error: unknown) => {
      this.#requireSound();
      throw error;
    });
    this.#chunks.delete(rows);
    if (part?.kind === "rows") this.#settleKeys(part.keys, lsn);
    this.#forgetTouched();
    const { recorded, keeper } = this.delivering;
    const { name } = this.subject.table;
    const isRange = part?.kind === "range" && this.#isRecorded;
    try {
      this.#requireSound();
      if (isRange) recorded.endRange(name, part.range, lsn, rows.delivered);
      // The only chunk: with its rows it is committed that the table is copied.
      else if (rows.isCommitted && part === null) {
        this.#takeBack = recorded.undoable(name, () => void this.#recordMade());
      }
    } finally {
      rows.recorded();
    }
    if (isRange || rows.isCommitted) await keeper.save();
  }

  /** A key that has no row any more waits for none, unless the stream has touched it since. */
  #settleKeys(keys: readonly RowKey[], point: Lsn): void {
    for (const key of keys) this.#touched.leavesOut(keyTextsHash(key), point);
  }

  #cancelChunks(): void {
    for (const rows of this.#chunks.keys()) rows.cancel();
    this.#chunks.clear();
  }

  /** All rows as of a point carry the same. */
  #originAt({ lsn, timeUs }: ChunkPlace): PointOrigin {
    const known = this.#origins.get(lsn);
    if (known) return known;
    const { stream, keeper } = this.delivering;
    this.#touched.beginPoint();
    const { behind } = stream;
    const origin = { version: stream.takeVersion(timeUs), timeUs: Number(timeUs), lsn, behind };
    const taken = { origin, isReady: Promise.all([keeper.save(), stream.submitted()]) };
    this.#origins.set(lsn, taken);
    return taken;
  }

  /** What was touched before the point of every chunk that is under way or to come. */
  #forgetTouched(): void {
    const newest = [...this.#origins.keys()].sort(byPlace).at(-1);
    const [oldest = newest] = [...this.#chunks.values()].sort(byPlace);
    if (oldest !== undefined) this.#touched.forgetBefore(oldest);
  }

  /** What is recorded of it is still there. */
  get #isHeld(): boolean {
    return this.delivering.recorded.holds(this.subject.shape, this.subject.isFirst, this.#mark);
  }

  #requireSound(): void {
    if (this.#isRecorded && !this.#isHeld) this.spoil("is not what it was");
    const reason = this.#spoiledBy ?? (this.hasOverflowed ? "has keys that cannot be kept in mind" : null);
    if (reason !== null) throw copyInvalidated(this.subject.table.relation, reason);
  }
}

function byPlace(a: Lsn, b: Lsn): number {
  return a < b ? -1 : 1;
}

/** Rows of one go with rows of the other. */
function isSameShape(one: Relation, other: Relation): boolean {
  const columns = (of: Relation) => of.columns.map(({ name, number, typeName }) => [name, number, typeName]);
  const facts = (of: Relation) => [of.schema, of.name, columns(of), of.key];
  return one === other || Bun.deepEquals(facts(one), facts(other));
}
