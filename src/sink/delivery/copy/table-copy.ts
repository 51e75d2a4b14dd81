// A copy of one table, or of a part of it, on its way: rows cut into requests, counted until all are delivered.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { CopyPart } from "../../../change/copy-part.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { hold, letGo } from "../../format/values/arena-holds.ts";
import type { Scheduler } from "../order/scheduler.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type BatchLimits, RequestPlan } from "../stream/request-plan.ts";
import { type CopyOrigin, CopyRows } from "./copy-rows.ts";
import { RequestsOnTheirWay } from "./requests-on-their-way.ts";
import type { UndeliveredRows } from "./undelivered-rows.ts";

export interface TableCopyOptions {
  readonly batch: BatchLimits;
  readonly scheduler: Scheduler;
  readonly sendsReads: boolean;
  /** They have the share of the scheduler beside the stream's. */
  readonly isBeside?: boolean;
  /** Rows that are taken and not delivered; no more are taken then. */
  readonly maxUndelivered: number;
  /** Rows and bytes of JSON that are delivered so far. */
  readonly progress: (rows: number, bytes: number) => void;
  /** Lets I/O have its turn. */
  readonly breathe: () => Promise<void>;
}

/** What it is a copy of. */
export interface CopySubject {
  readonly table: CompiledTable;
  /** Of the table; null: all of it. */
  readonly part: CopyPart | null;
  /** The copy's own consistent point. */
  readonly lsn: Lsn;
}

/** Rows between two turns of I/O. */
const rowsPerTurn = 1024;

export class TableCopy {
  readonly #plan: RequestPlan;
  readonly #rows: CopyRows;
  readonly #requests: RequestsOnTheirWay;
  /** Batches are cut one after the other. */
  #cutting: Promise<void> = Promise.resolve();
  /** Rows that are in no request yet. */
  #open = 0;
  #taken = 0;
  #isCancelled = false;

  constructor(
    readonly subject: CopySubject,
    origin: CopyOrigin,
    private readonly room: UndeliveredRows,
    private readonly options: TableCopyOptions,
  ) {
    this.#rows = new CopyRows(subject.table, origin);
    this.#requests = new RequestsOnTheirWay(room, options, options.isBeside === true);
    const { batch, maxUndelivered } = options;
    const maxRows = Math.min(batch.maxRows || Number.POSITIVE_INFINITY, maxUndelivered);
    this.#plan = new RequestPlan({ ...batch, maxRows: Number.isFinite(maxRows) ? maxRows : 0 }, (request) =>
      this.#submit(request),
    );
  }

  /** Rows that came so far. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes rows; returns when they are in requests, which waits while too much is on its way. More rows, and the end, may come meanwhile. */
  take(batch: ChangeBatch): Promise<void> {
    if (this.options.sendsReads) this.#cutting = this.#cutting.then(() => this.#cut(batch));
    return this.#cutting;
  }

  /** Ends the last request and resolves when all are delivered. False: it was cancelled, and some are not. */
  async finish(): Promise<boolean> {
    await this.#cutting;
    if (this.#isCancelled) return false;
    for (const request of this.#plan.sealAll()) this.#submit(request);
    await this.#requests.delivered();
    return true;
  }

  /** No more rows come, and those that are in no request yet go nowhere. */
  cancel(): void {
    this.#isCancelled = true;
    this.room.dropped(this.#open);
    this.#open = 0;
  }

  async #cut(batch: ChangeBatch): Promise<void> {
    const { scheduler, isBeside } = this.options;
    hold(batch.arena);
    for (let i = 0; i < batch.count && !this.#isCancelled; i++) {
      this.#taken++;
      this.#open++;
      this.room.took();
      this.#rows.add(batch, i, this.#plan);
      if (this.room.isFull) await this.room.ample();
      if (isBeside ? !scheduler.hasRoomBeside : !scheduler.hasRoom) {
        await (isBeside ? scheduler.roomBeside() : scheduler.room());
      } else if (i % rowsPerTurn === rowsPerTurn - 1) await this.options.breathe();
    }
    letGo(batch.arena);
  }

  #submit(request: OutgoingRequest): void {
    this.#open -= request.rows;
    this.#requests.submit(request);
  }
}
