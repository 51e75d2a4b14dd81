// Cuts rows into requests: each table's rows, in order. Rows and bytes alone decide where, counted from the plan's beginning. So the same
// rows give the same requests, however they arrived. The caller decides when a plan ends early.

import type { Position } from "../../../change/checkpoint.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { IdempotencyKey, type RowMoment } from "../../format/idempotency-key.ts";
import type { RowContext } from "../../format/row-encoder.ts";
import { ByteWriter } from "../../format/values/byte-writer.ts";
import type { TupleView } from "../../format/values/tuple-view.ts";
import { stepOf } from "../parking/row-place.ts";
import { ReceiptRows, type RowLists } from "../receipts/receipt-rows.ts";
import type { OutgoingRequest, RequestRows } from "./outgoing-request.ts";

export interface BatchLimits {
  /** Rows of a request; 0: unlimited. */
  readonly maxRows: number;
  /** The body is a bare object: a request has one row. */
  readonly isBare: boolean;
  /** Bytes of an uncompressed body; a single row above it goes alone. */
  readonly maxBytes: number;
}

/** One row, and what identifies it. */
export interface PlannedRow {
  readonly arena: Uint8Array;
  readonly before: TupleView;
  readonly after: TupleView;
  readonly context: RowContext;
  /** The tuple that holds the row's identity; null for a truncate. */
  readonly identity: TupleView | null;
  /** Of a change of the key, which makes two rows: the tuple of the other one. */
  readonly moved: TupleView | null;
  readonly moment: RowMoment;
  readonly touches: readonly number[];
  readonly position: () => Position | null;
  /** Of a row of a copy: the change that it comes after. Null: it is a change itself. */
  readonly behind: Position | null;
}

/** Buffers above this are not kept for the next request. */
const keptBufferBytes = 4 * 1024 * 1024;
const keptBuffers = 4;
const none: readonly number[] = [];

interface OrderedTable {
  readonly table: CompiledTable;
  /** How its rows are told apart. */
  readonly mark: string;
}

export class RequestPlan {
  readonly #open = new Map<string, OpenRequest>();
  /** By name, the tables as they were met last. */
  readonly #ordered = new Map<string, OrderedTable>();
  readonly #spare: ByteWriter[] = [];
  readonly #spareRows: RowLists[] = [];

  constructor(
    private readonly limits: BatchLimits,
    /** Takes a request that a limit ended. */
    readonly emit: (request: OutgoingRequest) => void,
    /** Whether requests that begin now may have to be cut. */
    private readonly marksRows: () => boolean = () => false,
    private readonly keepsReceipts = false,
  ) {}

  addRow(table: CompiledTable, row: PlannedRow): void {
    const array = !this.limits.isBare;
    const before = this.#open.get(table.name);
    const isOrderedAnew = before?.table !== table && this.#meet(table);
    if (before && isOrderedAnew) this.#seal(before);
    let open = before && !isOrderedAnew ? before : this.#begin(table, row);
    const out = open.out;
    if (open.rows > 0) out.byte(44);
    const start = out.length;
    table.encoder.writeRow(out, row.arena, row.before, row.after, row.context);
    if (open.rows > 0 && out.size + 1 > this.limits.maxBytes) {
      const next = this.#begin(table, row);
      out.moveTail(start, next.out);
      // The comma.
      out.length--;
      this.#seal(open);
      this.#open.set(table.name, next);
      open = next;
    }
    open.add(table, row, isOrderedAnew);
    const full = open.rows === this.limits.maxRows || open.out.size + (array ? 1 : 0) >= this.limits.maxBytes;
    if (full) this.#seal(open);
  }

  /**
   * Whether the table's rows are told apart otherwise than before, by another key or another identity: nothing tells which earlier row one is. So a
   * request begins that waits for all earlier ones of the table, and later ones wait for it.
   */
  #meet(table: CompiledTable): boolean {
    const known = this.#ordered.get(table.name);
    if (known?.table === table) return false;
    const { key, columns } = table.relation;
    const of = key.map((at) => [columns[at]!.name, columns[at]!.typeOid, columns[at]!.typmod]);
    const mark = JSON.stringify([table.order, of]);
    this.#ordered.set(table.name, { table, mark });
    return known !== undefined && known.mark !== mark;
  }

  /** Ends every open request, in the order in which the tables were first met. */
  sealAll(): OutgoingRequest[] {
    const requests: OutgoingRequest[] = [];
    for (const open of this.#open.values()) requests.push(this.#close(open));
    this.#open.clear();
    return requests;
  }

  #begin(table: CompiledTable, row: PlannedRow): OpenRequest {
    const { isBare } = this.limits;
    const marks = this.marksRows() ? new RowMarks(table, row, isBare) : null;
    const receiptRows = this.keepsReceipts ? new ReceiptRows(false, this.#spareRows.pop()) : null;
    const out = this.#spare.pop() ?? new ByteWriter();
    const open = new OpenRequest(table, out, row.position(), marks, receiptRows);
    if (!isBare) open.out.byte(91);
    this.#open.set(table.name, open);
    return open;
  }

  #seal(open: OpenRequest): void {
    this.#open.delete(open.table.name);
    this.emit(this.#close(open));
  }

  #close(open: OpenRequest): OutgoingRequest {
    const out = open.out;
    if (!this.limits.isBare) out.byte(93);
    const request: OutgoingRequest = {
      schema: open.table.relation.schema,
      table: open.table.relation.name,
      body: out.takeBody(),
      rows: open.rows,
      idempotencyKey: open.key.finish(),
      touches: open.touches,
      barrier: open.barrier,
      position: open.position,
      rowMarks: open.marks ?? undefined,
      receiptRows: open.receiptRows ?? undefined,
    };
    if (out.bytes.length <= keptBufferBytes && this.#spare.length < keptBuffers) this.#spare.push(out);
    const rowLists = open.receiptRows?.lists;
    if (rowLists?.hasRoom && this.#spareRows.length < keptBuffers) this.#spareRows.push(rowLists);
    return request;
  }
}

class OpenRequest {
  readonly key: IdempotencyKey;
  readonly touches: number[] = [];
  rows = 0;
  barrier = false;

  constructor(
    readonly table: CompiledTable,
    readonly out: ByteWriter,
    readonly position: Position | null,
    readonly marks: RowMarks | null,
    readonly receiptRows: ReceiptRows | null,
  ) {
    this.key = new IdempotencyKey(table.keyMaterial);
  }

  /** `isApart`: nothing tells which earlier row it is. */
  add(table: CompiledTable, row: PlannedRow, isApart: boolean): void {
    this.rows++;
    if (isApart) this.barrier = true;
    for (const hash of isApart ? none : row.touches) this.touches.push(hash);
    this.marks?.add(this.out.size, this.touches.length, row);
    this.receiptRows?.add(table, row);
    if (row.identity) this.key.addRow(row.arena, row.identity, table.identity, row.moment);
    else {
      this.barrier = true;
      this.key.addRow(row.arena, row.after, none, row.moment);
    }
  }
}

class RowMarks implements RequestRows {
  readonly ends: number[] = [];
  touchEnds: number[] | null = null;
  readonly commitLsns: Lsn[] = [];
  readonly steps: number[] = [];
  readonly versions: number[] = [];
  readonly commitTimesUs: number[] = [];
  readonly isOfCopy: boolean;
  readonly keyColumns: readonly string[];
  readonly columnsAt: readonly (readonly string[])[];

  constructor(
    { relation: { key, columns }, encoder }: CompiledTable,
    { context }: PlannedRow,
    readonly isBare: boolean,
  ) {
    this.isOfCopy = context.snapshot;
    this.keyColumns = key.map((column) => columns[column]!.name);
    this.columnsAt = encoder.columnsAt ?? [];
  }

  add(end: number, touches: number, row: PlannedRow): void {
    this.ends.push(end);
    this.commitLsns.push((row.behind ?? row.context).commitLsn);
    this.steps.push(stepOf(row));
    this.versions.push(row.context.version);
    this.commitTimesUs.push(row.moment.commitTimeUs);
    if (this.touchEnds) this.touchEnds.push(touches);
    else if (touches !== this.ends.length) {
      this.touchEnds = Array.from({ length: this.ends.length - 1 }, (_, row) => row + 1);
      this.touchEnds.push(touches);
    }
  }
}
