// A range of a table's copy, or the whole table, on its way beside the stream: rows that the stream has not brought since their point
// are cut into requests, in slices that no change comes between. Counted until all are delivered.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { keyHash } from "../../format/row-identity.ts";
import { hold, letGo } from "../../format/values/arena-holds.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import { RequestPlan } from "../stream/request-plan.ts";
import { type CopyOrigin, CopyRows } from "./copy-rows.ts";
import { RequestsOnTheirWay } from "./requests-on-their-way.ts";
import type { TableCopyOptions } from "./table-copy.ts";
import type { TouchedKeys } from "./touched-keys.ts";
import type { UndeliveredRows } from "./undelivered-rows.ts";

/** Changes wait for no more than this. */
const rowsPerSlice = 2048;

export class BesideRange {
  readonly #plan: RequestPlan;
  readonly #rows: CopyRows;
  /** Batches are cut one after the other. */
  #cutting: Promise<void> = Promise.resolve();
  readonly #requests: RequestsOnTheirWay;
  #isCancelled = false;
  #isWhole = true;

  constructor(
    private readonly table: CompiledTable,
    readonly point: Lsn,
    origin: CopyOrigin,
    private readonly touched: TouchedKeys,
    private readonly room: UndeliveredRows,
    private readonly options: TableCopyOptions,
  ) {
    this.#rows = new CopyRows(table, origin);
    this.#requests = new RequestsOnTheirWay(room, options, true);
    this.#plan = new RequestPlan(options.batch, (request) => this.#requests.submit(request));
  }

  /** Takes rows; returns when they are in requests. What comes meanwhile waits. */
  take(batch: ChangeBatch): Promise<void> {
    this.#cutting = this.#cutting.then(() => this.#cut(batch));
    return this.#cutting;
  }

  /** No row that was to go out was kept back. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get delivered(): number {
    return this.#requests.rows;
  }

  /** Resolves when all rows are delivered. */
  async finish(): Promise<void> {
    await this.#cutting;
    await this.#requests.delivered();
  }

  /** No more rows go out. */
  cancel(): void {
    this.#isCancelled = true;
  }

  async #cut(batch: ChangeBatch): Promise<void> {
    const { scheduler, breathe } = this.options;
    hold(batch.arena);
    for (let at = 0; at < batch.count; ) {
      await scheduler.roomBeside();
      if (this.room.isFull) await this.room.ample();
      if (this.#isCancelled || scheduler.isOver) {
        this.#isWhole = false;
        break;
      }
      at = this.#cutSlice(batch, at);
      await breathe();
    }
    letGo(batch.arena);
  }

  /** A change that is taken behind this goes behind these rows, and is not among what was touched before. */
  #cutSlice(batch: ChangeBatch, from: number): number {
    const to = Math.min(batch.count, from + Math.max(1, Math.min(rowsPerSlice, this.room.left)));
    for (let i = from; i < to; i++) {
      if (this.#rows.add(batch, i, this.#plan, this.#isWanted)) this.room.took();
    }
    for (const request of this.#plan.sealAll()) this.#requests.submit(request);
    return to;
  }

  readonly #isWanted = (arena: Uint8Array, row: TupleView): boolean => {
    const hash = keyHash(arena, row, this.table.relation.key);
    // Without its key nothing could be told of it.
    if (hash === null) this.touched.isLost = true;
    return hash !== null && !this.touched.leavesOut(hash, this.point);
  };
}
