// One table's copy on its way: rows cut into requests, counted until all are delivered.

import type { ChangeBatch } from "../../change/change-batch.ts";
import type { Lsn } from "../../change/lsn.ts";
import { hold, letGo } from "./arena-holds.ts";
import type { CompiledTable } from "./compiled-table.ts";
import { type CopyOrigin, CopyRows } from "./copy-rows.ts";
import type { OutgoingRequest } from "./outgoing-request.ts";
import { type BatchLimits, RequestPlan } from "./request-plan.ts";
import type { Scheduler } from "./scheduler.ts";

export interface TableCopyOptions {
  readonly batch: BatchLimits;
  readonly scheduler: Scheduler;
  readonly sendsReads: boolean;
  /** Rows that are taken and not delivered; no more are taken then. */
  readonly maxUndelivered: number;
  /** Rows and bytes of JSON that are delivered so far. */
  readonly progress: (rows: number, bytes: number) => void;
  /** Lets I/O have its turn. */
  readonly breathe: () => Promise<void>;
}

/** What is waited for is some room, and not room for one row after the other. */
const freedShare = 0.25;
/** Rows between two turns of I/O. */
const rowsPerTurn = 1024;

export class TableCopy {
  readonly #plan: RequestPlan;
  readonly #rows: CopyRows;
  #pending = 0;
  #taken = 0;
  #isBrokenOff = false;
  #roomWaiters: (() => void)[] = [];
  #delivered = 0;
  #deliveredBytes = 0;
  #doneWaiters: (() => void)[] = [];

  constructor(
    readonly table: CompiledTable,
    origin: CopyOrigin,
    /** The copy's own consistent point. */
    readonly lsn: Lsn,
    private readonly options: TableCopyOptions,
  ) {
    this.#rows = new CopyRows(table, origin);
    const { batch, maxUndelivered } = options;
    const maxRows = Math.min(batch.maxRows || Number.POSITIVE_INFINITY, maxUndelivered);
    this.#plan = new RequestPlan({ ...batch, maxRows: Number.isFinite(maxRows) ? maxRows : 0 }, (request) =>
      this.#submit(request),
    );
  }

  /** Takes rows; returns when they are in requests. Waits while too much is on its way. */
  async take(batch: ChangeBatch): Promise<void> {
    if (!this.options.sendsReads) return;
    const { scheduler } = this.options;
    hold(batch.arena);
    for (let i = 0; i < batch.count; i++) {
      this.#rows.add(batch, i, this.#plan);
      this.#taken++;
      if (this.#taken - this.#delivered >= this.options.maxUndelivered) await this.#room();
      if (!scheduler.hasRoom) await scheduler.room();
      else if (i % rowsPerTurn === rowsPerTurn - 1) await this.options.breathe();
    }
    letGo(batch.arena);
  }

  /** Ends the last request and resolves when all are delivered. */
  async finish(): Promise<void> {
    for (const request of this.#plan.sealAll()) this.#submit(request);
    while (this.#pending > 0) {
      await new Promise<void>((resolve) => this.#doneWaiters.push(resolve));
    }
  }

  /** No delivery is waited for any more. */
  breakOff(): void {
    this.#isBrokenOff = true;
    for (const wake of this.#roomWaiters.splice(0)) wake();
  }

  /** A request holds no more rows than may be on their way: while there is no room, one is being delivered. */
  async #room(): Promise<void> {
    const most = this.options.maxUndelivered * (1 - freedShare);
    while (this.#taken - this.#delivered > most && this.#pending > 0 && !this.#isBrokenOff) {
      await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    }
  }

  #submit(request: OutgoingRequest): void {
    this.#pending++;
    this.options.scheduler.submit(request, () => {
      this.#pending--;
      this.#delivered += request.rows;
      this.#deliveredBytes += request.body.length;
      this.options.progress(this.#delivered, this.#deliveredBytes);
      for (const wake of this.#roomWaiters.splice(0)) wake();
      if (this.#pending === 0) for (const wake of this.#doneWaiters.splice(0)) wake();
    });
  }
}
