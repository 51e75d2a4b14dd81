// Sends the rows of one chunk of a copy: cuts them into requests, and counts these until all are delivered. Beside the stream it cuts
// slices that no change comes between, and leaves out rows that the stream has touched since the chunk's point.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { keyHash } from "../../format/row-identity.ts";
import { releaseArena, retainArena } from "../../format/values/arena-references.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import type { LineBatch } from "../line/line-messages.ts";
import type { Scheduler } from "../order/scheduler.ts";
import type { CopyOrigin } from "../record/chunked-copy.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type BatchLimits, RequestPlan } from "../stream/request-plan.ts";
import { CopyRows } from "./copy-rows.ts";
import type { TouchedHashes } from "./touched-hashes.ts";
import type { UndeliveredRows } from "./undelivered-rows.ts";

/** The failure of a chunk whose copy has ended, or whose sink is closed. */
export function copyCancelled(): MillraceError {
  return new MillraceError("sink_connection_lost", "the copy was cancelled");
}

export interface ChunkOptions {
  readonly batch: BatchLimits;
  readonly scheduler: Scheduler;
  /** Otherwise rows of copies are not sent. */
  readonly sendsReads: boolean;
  /** Rows and bytes of JSON that are delivered so far. */
  readonly progress: (rows: number, bytes: number) => void;
  /** Lets I/O happen. */
  readonly yieldToIo: () => Promise<void>;
}

/** Rows that a chunk beside the stream leaves out: the stream has touched them since the chunk's point. */
export interface LeftOut {
  readonly touched: TouchedHashes;
  readonly point: Lsn;
}

/** Changes, and I/O, wait for no more rows than this. */
const rowsPerSlice = 2048;

export class ChunkRows {
  readonly #plan: RequestPlan;
  readonly #rows: CopyRows;
  /** Batches are cut one after the other. */
  #cutting: Promise<void> = Promise.resolve();
  /** Rows that are in no request yet. */
  #uncut = 0;
  /** Requests that are not delivered. */
  #pending = 0;
  #delivered = { rows: 0, bytes: 0 };
  #isWhole = true;
  #waiters: (() => void)[] = [];

  /** `leftOut`: null while the stream waits. */
  constructor(
    private readonly table: CompiledTable,
    origin: CopyOrigin,
    private readonly undelivered: UndeliveredRows,
    readonly leftOut: LeftOut | null,
    private readonly options: ChunkOptions,
  ) {
    this.#rows = new CopyRows(table, origin);
    const { batch } = options;
    const maxRows = Math.min(batch.maxRows || Number.POSITIVE_INFINITY, undelivered.most);
    const limits = { ...batch, maxRows: Number.isFinite(maxRows) ? maxRows : 0 };
    this.#plan = new RequestPlan(limits, (request) => this.#submit(request));
  }

  /** Rows that are delivered. */
  get delivered(): number {
    return this.#delivered.rows;
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
    this.#submitAll();
    while (this.#pending > 0) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** Rows that are in no request yet are not sent. */
  cancel(): void {
    this.#isWhole = false;
    this.undelivered.dropped(this.#uncut);
    this.#uncut = 0;
  }

  async #cut(batch: ChangeBatch): Promise<void> {
    const { scheduler, yieldToIo } = this.options;
    retainArena(batch.arena);
    for (let at = 0; at < batch.count; ) {
      if (!this.#hasCapacity)
        await (this.leftOut ? scheduler.untilCopyCapacity() : scheduler.untilCapacity());
      await this.undelivered.untilCapacity();
      if (scheduler.isOver) this.#isWhole = false;
      if (!this.#isWhole) break;
      at = this.#cutSlice(batch, at);
      await yieldToIo();
    }
    releaseArena(batch.arena);
  }

  /** Cuts some rows, which what the stream brings next comes after. Returns the first row that is left. */
  #cutSlice(batch: ChangeBatch, from: number): number {
    const to = Math.min(batch.count, from + Math.max(1, Math.min(rowsPerSlice, this.undelivered.left)));
    let i = from;
    while (i < to) {
      if (this.#rows.add(batch, i++, this.#plan, this.leftOut ? this.#isWanted : undefined)) {
        this.#uncut++;
        this.undelivered.took();
      }
      if (!this.#hasCapacity) break;
    }
    if (this.leftOut) this.#submitAll();
    return i;
  }

  get #hasCapacity(): boolean {
    const { scheduler } = this.options;
    return this.leftOut ? scheduler.hasCopyCapacity : scheduler.hasCapacity;
  }

  readonly #isWanted = (arena: Uint8Array, row: TupleView): boolean => {
    const { touched, point } = this.leftOut!;
    const hash = keyHash(arena, row, this.table.relation.key);
    // Without its key nothing tells whether it was touched.
    if (hash === null) touched.isLost = true;
    return hash !== null && !touched.leavesOut(hash, point);
  };

  #submitAll(): void {
    for (const request of this.#plan.sealAll()) this.#submit(request);
  }

  #submit(request: OutgoingRequest): void {
    this.#pending++;
    this.#uncut -= request.rows;
    this.undelivered.sent();
    const delivered = () => {
      const { rows, bytes } = this.#delivered;
      this.#delivered = { rows: rows + request.rows, bytes: bytes + request.body.length };
      this.options.progress(this.#delivered.rows, this.#delivered.bytes);
      this.undelivered.delivered(request.rows);
      if (--this.#pending === 0) for (const wake of this.#waiters.splice(0)) wake();
    };
    this.options.scheduler.submit(request, delivered, false, this.leftOut !== null);
  }
}
