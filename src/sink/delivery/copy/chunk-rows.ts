// Sends the rows of one chunk of a copy: cuts them into requests, and counts these until all are delivered. Beside the stream it cuts
// slices that no change comes between, and leaves out rows that the stream has touched since the chunk's point.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { Waiters } from "../../../concurrency/waiters.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { RowMoment } from "../../format/idempotency-key.ts";
import { keyHash } from "../../format/row-identity.ts";
import { releaseArena, retainArena } from "../../format/values/arena-references.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import type { LineBatch } from "../line/line-messages.ts";
import type { PlacedOrigin } from "../record/chunked-copy.ts";
import type { CommitPoint } from "../record/commit-point.ts";
import type { Outlet, Transport } from "../transport.ts";
import { CopyRows } from "./copy-rows.ts";
import type { TouchedHashes } from "./touched-hashes.ts";
import type { UndeliveredRows } from "./undelivered-rows.ts";

/** The failure of a chunk whose copy has ended, or whose sink is closed. */
export function copyCancelled(): MillraceError {
  return new MillraceError("sink_connection_lost", "the copy was cancelled");
}

export interface ChunkOptions {
  readonly transport: Pick<Transport, "chunk" | "isOver">;
  /** Where rows and record are committed together. */
  readonly commitPoint: CommitPoint | null;
  /** Otherwise rows of copies are not sent. */
  readonly sendsReads: boolean;
  /** Rows and bytes of JSON that are delivered so far. */
  readonly progress: (rows: number, bytes: number) => void;
  /** Lets I/O happen. */
  readonly yieldToIo: () => Promise<void>;
  /** Of rows that are sent again. */
  readonly moment?: RowMoment | null;
}

/** Rows that a chunk beside the stream leaves out: the stream has touched them since the chunk's point. */
export interface LeftOut {
  readonly touched: TouchedHashes;
  readonly point: Lsn;
}

/** Changes, and I/O, wait for no more rows than this. */
const rowsPerSlice = 2048;

export class ChunkRows {
  readonly #outlet: Outlet;
  readonly #rows: CopyRows;
  /** Batches are cut one after the other. */
  #cutting: Promise<void> = Promise.resolve();
  /** Requests that are not delivered. */
  #pending = 0;
  #delivered = { rows: 0, bytes: 0 };
  #isWhole = true;
  /** No commit is made before the record has the chunk. */
  #holdsCommit = false;
  readonly #waiters = new Waiters();

  /** `leftOut`: null while the stream waits. */
  constructor(
    private readonly table: CompiledTable,
    origin: PlacedOrigin,
    private readonly undelivered: UndeliveredRows,
    readonly leftOut: LeftOut | null,
    private readonly options: ChunkOptions,
  ) {
    this.#rows = new CopyRows(table, origin, options.moment ?? null);
    this.#outlet = options.transport.chunk({
      sent: (count, bytes) => this.#sent(count, bytes),
      isIncremental: leftOut !== null,
      maxRows: undelivered.most,
    });
  }

  /** Its rows are durable with the record, and not before. */
  get isCommitted(): boolean {
    return this.options.commitPoint !== null;
  }

  /** Rows that are delivered. */
  get delivered(): number {
    return this.#delivered.rows;
  }

  /** Resolves when its rows may come: no commit is made from here on, until the record has the chunk. */
  async begin(): Promise<void> {
    const { commitPoint } = this.options;
    if (!commitPoint) return;
    await commitPoint.beginChunk();
    this.#holdsCommit = true;
    if (!this.#isWhole) this.recorded();
  }

  /** Takes rows. Returns when they are cut. Waits while too much is in flight. More rows, and the end, may come meanwhile. */
  take(batch: LineBatch): Promise<void> {
    const own = { ...batch, relations: [this.table.relation] };
    if (this.options.sendsReads) this.#cutting = this.#cutting.then(() => this.#cut(own));
    return this.#cutting;
  }

  /** No more rows come. Returns when all are delivered. Throws when some never will be, as it was cancelled, or the sink is closed. */
  async deliver(): Promise<void> {
    await this.#cutting;
    if (!this.#isWhole) throw copyCancelled();
    this.#outlet.seal();
    while (this.#pending > 0) await this.#waiters.change();
  }

  /** Rows that are in no request yet are not sent. They stay counted as taken: the copy ends with this chunk. */
  cancel(): void {
    this.#isWhole = false;
    this.recorded();
  }

  /** The record has it, or it is given up: a commit may be made. */
  recorded(): void {
    if (this.#holdsCommit) this.options.commitPoint?.endChunk();
    this.#holdsCommit = false;
  }

  async #cut(batch: ChangeBatch): Promise<void> {
    const { transport, yieldToIo } = this.options;
    retainArena(batch.arena);
    for (let at = 0; at < batch.count; ) {
      if (!this.#outlet.hasCapacity) await this.#outlet.untilCapacity();
      await this.undelivered.untilCapacity();
      if (transport.isOver) this.#isWhole = false;
      if (!this.#isWhole) break;
      at = this.#cutSlice(batch, at);
      await yieldToIo();
    }
    releaseArena(batch.arena);
  }

  /** Cuts some rows into requests. What the stream brings next comes after them. Returns the first row that is left. */
  #cutSlice(batch: ChangeBatch, from: number): number {
    const to = Math.min(batch.count, from + Math.max(1, Math.min(rowsPerSlice, this.undelivered.left)));
    let i = from;
    while (i < to) {
      if (this.#rows.add(batch, i++, this.#outlet, this.leftOut ? this.#isWanted : undefined))
        this.undelivered.took();
      if (!this.#outlet.hasCapacity) break;
    }
    if (this.leftOut) this.#outlet.seal();
    return i;
  }

  readonly #isWanted = (arena: Uint8Array, row: TupleView): boolean => {
    const { touched, point } = this.leftOut!;
    const hash = keyHash(arena, row, this.table.relation.key);
    // Without its key nothing tells whether it was touched.
    if (hash === null) touched.isLost = true;
    return hash !== null && !touched.leavesOut(hash, point);
  };

  #sent(count: number, size: number): () => void {
    this.#pending++;
    this.undelivered.sent();
    return () => {
      const { rows, bytes } = this.#delivered;
      this.#delivered = { rows: rows + count, bytes: bytes + size };
      this.options.progress(this.#delivered.rows, this.#delivered.bytes);
      this.undelivered.delivered(count);
      if (--this.#pending === 0) this.#waiters.wake();
    };
  }
}
