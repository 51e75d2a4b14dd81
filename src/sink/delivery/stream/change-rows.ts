// Makes rows of changes, with their versions and identities. An outlet takes the rows. Versions are given out here, one or two for each
// change, in the order of the stream.

import { type ChangeBatch, ChangeFlag, ChangeKind } from "../../../change/change-batch.ts";
import type { Position } from "../../../change/checkpoint.ts";
import { type Lsn, lsn, zeroLsn } from "../../../change/lsn.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { RowPart } from "../../format/idempotency-key.ts";
import type { OperationFilter } from "../../format/message-encoding.ts";
import type { RowContext, RowOperation } from "../../format/row-encoder.ts";
import { identityHash, keyChanged } from "../../format/row-identity.ts";
import { TupleView } from "../../format/values/tuple-view.ts";
import { nextVersion } from "../../format/version-counter.ts";
import type { StreamOutlet } from "../transport.ts";
import type { PlannedRow } from "./request-plan.ts";
import { isLastOfTransaction } from "./stream-place.ts";
import type { OpenTransaction, TransactionCounts } from "./transaction-counts.ts";

/** The hash that all rows of a table of order `strict` share. */
export const strictHash = 0;
const emptyView = new TupleView();

/** A change that is being cut into rows. The tuples are good until `see` returns. */
export interface ChangedRow {
  readonly table: CompiledTable;
  readonly arena: Uint8Array;
  /** No columns: the change has none. */
  readonly before: TupleView;
  /** With what the source left out, where the old tuple holds that. */
  readonly after: TupleView;
  readonly commitLsn: Lsn;
}

/** Sees the changes of some tables, in the order of the stream. */
export interface ChangeWatch {
  watches(table: CompiledTable): boolean;
  see(row: ChangedRow): void;
}

export class ChangeRows {
  readonly #before = new TupleView();
  readonly #after = new TupleView();
  readonly #context: RowContext = {
    operation: "create",
    version: 0,
    oldIsKey: false,
    commitTimeUs: 0,
    commitLsn: zeroLsn,
    place: 0,
    totalOrder: 0,
    tableOrder: 0,
    xid: 0,
    snapshot: false,
  };
  readonly #moment: { commitTimeUs: number; ordinal: number; part: RowPart } = {
    commitTimeUs: 0,
    ordinal: 0,
    part: RowPart.whole,
  };
  readonly #touches: number[] = [];
  #row: { -readonly [K in keyof PlannedRow]: PlannedRow[K] };
  #batch: ChangeBatch | null = null;
  #transaction = -1;

  constructor(
    /** The version given out last. */
    public lastVersion: number,
    private readonly filter: OperationFilter,
    private readonly watches: readonly ChangeWatch[],
    /** Null: the format has no transaction metadata. */
    private readonly transactions: TransactionCounts | null = null,
  ) {
    this.#row = {
      arena: new Uint8Array(),
      before: emptyView,
      after: emptyView,
      context: this.#context,
      identity: null,
      moved: null,
      moment: this.#moment,
      touches: this.#touches,
      position: () => this.#position(),
      behind: null,
    };
  }

  /** Adds the rows of change `i` to `outlet`. */
  add(batch: ChangeBatch, i: number, table: CompiledTable, outlet: StreamOutlet): void {
    this.#enter(batch, i, outlet);
    this.#add(batch, i, table, outlet);
    this.#leave(batch, i, outlet);
  }

  #add(batch: ChangeBatch, i: number, table: CompiledTable, outlet: StreamOutlet): void {
    const { arena } = batch;
    this.#before.read(arena, batch.oldStart[i]!, batch.oldEnd[i]!);
    const kind = batch.kind[i] as ChangeKind;
    if (kind === ChangeKind.truncate) this.#after.count = 0;
    else this.#after.read(arena, batch.newStart[i]!, batch.newEnd[i]!);
    if ((batch.flags[i]! & ChangeFlag.hasUnchanged) !== 0) this.#after.completeFrom(this.#before);
    for (const watch of this.watches) if (watch.watches(table)) this.#show(watch, table, arena);
    this.#touches.length = 0;
    switch (kind) {
      case ChangeKind.insert:
        this.#changed(outlet, table, "create");
        break;
      case ChangeKind.update:
        this.#updated(outlet, table);
        break;
      case ChangeKind.delete:
        this.#removed(outlet, table, RowPart.whole);
        break;
      case ChangeKind.truncate:
        this.#truncated(outlet, table);
        break;
      case ChangeKind.read:
      case ChangeKind.shape:
        throw new Error("a row of a copy, or a shape that nobody asked for, among the changes of the stream");
      default:
        kind satisfies never;
    }
  }

  /** The transaction that the stream is in, where rows are counted; null: none, or it has made no row. */
  get transaction(): OpenTransaction | null {
    return this.transactions?.open ?? null;
  }

  /** The stream has come to `resumeLsn`: every transaction that was committed before has ended. */
  reached(resumeLsn: Lsn, outlet: StreamOutlet): void {
    this.transactions?.reached(resumeLsn, outlet.addBoundary);
  }

  /** Leaves change `i` out: versions and counts go on as if it were sent. */
  pass(batch: ChangeBatch, i: number, table: CompiledTable, outlet: StreamOutlet): void {
    this.#enter(batch, i, outlet);
    this.lastVersion = nextVersion(this.lastVersion, this.#context.commitTimeUs);
    const operation = operationOf(batch.kind[i] as ChangeKind);
    if (operation && this.filter.sends(operation)) this.#count(table);
    this.#leave(batch, i, outlet);
  }

  #show(watch: ChangeWatch, table: CompiledTable, arena: Uint8Array): void {
    const { commitLsn } = this.#context;
    watch.see({ table, arena, before: this.#before, after: this.#after, commitLsn });
  }

  #enter(batch: ChangeBatch, i: number, outlet: StreamOutlet): void {
    const transaction = batch.transaction[i]!;
    if (batch !== this.#batch || transaction !== this.#transaction) {
      this.#batch = batch;
      this.#transaction = transaction;
      const time = Number(batch.transactions.commitTimeUs[transaction]!);
      this.#context.commitTimeUs = time;
      this.#context.commitLsn = lsn(batch.transactions.commitLsn[transaction]!);
      this.#context.xid = batch.transactions.xid[transaction]!;
      this.#moment.commitTimeUs = time;
      this.#row.arena = batch.arena;
    }
    this.#context.oldIsKey = (batch.flags[i]! & ChangeFlag.oldIsKey) !== 0;
    this.#context.place = batch.changeLsn?.[i] ?? 0;
    this.#moment.ordinal = batch.ordinal[i]!;
    this.transactions?.enter(this.#context, outlet.addBoundary);
  }

  #leave(batch: ChangeBatch, i: number, outlet: StreamOutlet): void {
    if (this.transactions && isLastOfTransaction(batch, i)) this.transactions.end(outlet.addBoundary);
  }

  #updated(outlet: StreamOutlet, table: CompiledTable): void {
    const key = table.relation.key;
    const moved =
      this.#before.count > 0 && key.length > 0 && keyChanged(this.#row.arena, this.#before, this.#after, key);
    if (!moved) {
      this.#changed(outlet, table, "update");
      return;
    }
    // Both rows touch both keys: the new row never overtakes the removal of the old one.
    this.#touch(table, this.#before);
    this.#touch(table, this.#after);
    this.#row.moved = this.#after;
    this.#removed(outlet, table, RowPart.keyRemoved);
    this.#moment.part = RowPart.keyAdded;
    this.#row.moved = this.#before;
    this.#send(outlet, table, "create", emptyView, this.#after, this.#after);
    this.#row.moved = null;
  }

  #changed(outlet: StreamOutlet, table: CompiledTable, operation: RowOperation): void {
    this.#touch(table, this.#after);
    this.#moment.part = RowPart.whole;
    this.#send(outlet, table, operation, this.#before, this.#after, this.#after);
  }

  #removed(outlet: StreamOutlet, table: CompiledTable, part: RowPart): void {
    if (part === RowPart.whole) this.#touch(table, this.#before);
    this.#moment.part = part;
    this.#send(outlet, table, "delete", this.#before, emptyView, this.#before);
  }

  #truncated(outlet: StreamOutlet, table: CompiledTable): void {
    this.#moment.part = RowPart.truncate;
    this.#send(outlet, table, "truncate", emptyView, emptyView, null);
  }

  #send(
    outlet: StreamOutlet,
    table: CompiledTable,
    operation: RowOperation,
    before: TupleView,
    after: TupleView,
    identity: TupleView | null,
  ): void {
    // A version is given out whether the row is sent or not, so that versions do not depend on the format.
    this.lastVersion = nextVersion(this.lastVersion, this.#context.commitTimeUs);
    if (!this.filter.sends(operation)) return;
    this.#context.version = this.lastVersion;
    this.#context.operation = operation;
    this.#count(table);
    this.#row.before = before;
    this.#row.after = after;
    this.#row.identity = identity;
    outlet.addRow(table, this.#row);
  }

  #count({ relation: { schema, name } }: CompiledTable): void {
    if (!this.transactions) return;
    const [totalOrder, tableOrder] = this.transactions.count(`${schema}.${name}`);
    Object.assign(this.#context, { totalOrder, tableOrder });
  }

  #touch(table: CompiledTable, view: TupleView): void {
    if (table.order === "free") return;
    const hash =
      table.order === "strict" ? strictHash : identityHash(this.#row.arena, view, table.relation.key);
    this.#touches.push(hash);
  }

  #position(): Position {
    return { commitLsn: this.#context.commitLsn as Lsn, ordinal: this.#moment.ordinal };
  }
}

function operationOf(kind: ChangeKind): RowOperation | null {
  switch (kind) {
    case ChangeKind.insert:
      return "create";
    case ChangeKind.update:
      return "update";
    case ChangeKind.delete:
      return "delete";
    default:
      return null;
  }
}
