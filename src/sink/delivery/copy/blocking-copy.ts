// A copy that the stream waits for (Debezium's blocking snapshot), and rows that are copied by their keys. The rows are ahead of the
// stream: changes from before a chunk's point come afterwards, with higher versions. Ranges that are delivered are recorded. A range that
// is copied again comes in the same requests.

import { type Lsn, zeroLsn } from "../../../change/lsn.ts";
import type { DurableRanges, Settled } from "../../copy-sink.ts";
import type { CopyOrigin, PlacedOrigin } from "../record/chunked-copy.ts";
import { hasStream } from "../record/sink-record.ts";
import { placeOfCopy } from "../record/standing.ts";
import { type ChunkOptions, ChunkRows } from "./chunk-rows.ts";
import type { Chunk, ChunkPlace, CopySubject, DeliveryContext } from "./copy-context.ts";
import { UndeliveredRows } from "./undelivered-rows.ts";

export class BlockingMessageCopy {
  readonly #undelivered: UndeliveredRows;
  /** What all chunks carry. */
  #origin: Promise<CopyOrigin> | null = null;
  readonly #chunks = new Set<ChunkRows>();
  /** Of a copy that is recorded and not finished. */
  #takeBack: (() => void) | null = null;
  /** Of the whole table as one chunk. */
  #point: Lsn = zeroLsn;

  constructor(
    readonly subject: CopySubject,
    private readonly delivering: DeliveryContext,
    maxUndelivered: number,
  ) {
    this.#undelivered = new UndeliveredRows(maxUndelivered);
  }

  /** The first chunks may come. Null: the table comes as one. */
  start(isDivided: boolean): DurableRanges | null {
    const { shape, isFirst } = this.subject;
    return isDivided && isFirst ? this.delivering.recorded.begin(shape, true, false) : null;
  }

  /** Returns when rows of the chunk may come. */
  async begin(place: ChunkPlace, options: ChunkOptions): Promise<Chunk> {
    const { keeper, recorded } = this.delivering;
    const { table } = this.subject;
    const { part } = place;
    const known = part?.kind === "range" ? recorded.originOf(table.name) : null;
    if (!known) this.#origin ??= this.#originOf(place);
    const origin = known || (await this.#origin!);
    if (part?.kind === "range" && recorded.beginRange(table.name, part.range, origin)) await keeper.save();
    const rows = new ChunkRows(table, this.#placed(origin), this.#undelivered, null, options);
    this.#chunks.add(rows);
    return { rows, end: () => this.#endChunk(rows, place) };
  }

  /** All chunks are delivered: the copy is made, durably. Where rows are incomplete, the stream has to come to their points first. */
  async finish(): Promise<Settled> {
    const { keeper, recorded } = this.delivering;
    this.#takeBack = null;
    recorded.made(this.subject.shape, this.#point);
    await keeper.save();
    return "all";
  }

  /** It is made, or given up. Rows that are in no request yet are not sent. */
  end(): void {
    for (const rows of this.#chunks) rows.cancel();
    this.#takeBack?.();
  }

  /** Nothing is delivered any more: what waits for that need not wait. */
  breakOff(): void {
    this.#undelivered.close();
  }

  async #endChunk(rows: ChunkRows, { part, lsn }: ChunkPlace): Promise<void> {
    const { keeper, recorded } = this.delivering;
    const { name } = this.subject.table;
    await rows.deliver();
    this.#chunks.delete(rows);
    if (part?.kind === "range") recorded.endRange(name, part.range, lsn, rows.delivered);
    else if (part) recorded.completed(name, part.keys, lsn);
    else this.#endWhole(rows, lsn);
    rows.recorded();
    await keeper.save();
  }

  /** Where the rows are committed with the record, this says at once that the table is copied. */
  #endWhole(rows: ChunkRows, lsn: Lsn): void {
    this.#point = lsn;
    if (!rows.isCommitted) return;
    const { recorded } = this.delivering;
    const { table, shape } = this.subject;
    this.#takeBack = recorded.undoable(table.name, () => recorded.made(shape, lsn));
  }

  /**
   * Rows of a first copy have the version of the place where the stream began: every change that the stream brings is newer, also where a
   * copy is made again, as of a later point. Any other copy gets a version above all that were given out, which is durable before its
   * first row is sent. So does a later one where no stream follows: its rows may be others than those of the copy that was interrupted,
   * and nothing else brings them.
   */
  async #originOf({ lsn, timeUs }: ChunkPlace): Promise<CopyOrigin> {
    const { keeper, stream } = this.delivering;
    const { origin: first, copied } = keeper.record;
    const isLater = !hasStream(keeper.record) && timeUs !== first.version;
    if (this.subject.mode === "initial" && !isLater && !copied.has(this.subject.table.name))
      return { version: Number(first.version), timeUs: Number(first.version), lsn: first.lsn };
    await stream.flush();
    const origin = { version: stream.takeVersion(timeUs), timeUs: Number(timeUs), lsn };
    await keeper.save();
    return origin;
  }

  /** Rows with the version of the place where the stream began come before all changes, others where the stream waits. */
  #placed(origin: CopyOrigin): PlacedOrigin {
    const { keeper, stream } = this.delivering;
    const { record } = keeper;
    const { lsn: resumeLsn, version } = record.origin;
    const isAtBeginning = BigInt(origin.version) === version;
    const behind = isAtBeginning ? placeOfCopy(record, { resumeLsn, partial: null }) : stream.behind;
    return { ...origin, behind };
  }
}
