// Makes rows of requests of the rows of a copy. All of them carry one version, and an identity that does not depend on the order in which
// the copy reads them.

import type { ChangeBatch } from "../../../change/change-batch.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { type RowMoment, RowPart } from "../../format/idempotency-key.ts";
import type { RowContext } from "../../format/row-encoder.ts";
import { identityHash } from "../../format/row-identity.ts";
import { TupleView } from "../../format/values/tuple-view.ts";
import type { PlacedOrigin } from "../record/chunked-copy.ts";
import type { PlannedRow } from "../stream/request-plan.ts";
import type { Outlet } from "../transport.ts";

/** Different rows of a table without a key that are remembered, to tell equal ones apart. */
const maxRemembered = 500_000;
const emptyView = new TupleView();

export class CopyRows {
  readonly #after = new TupleView();
  readonly #context: RowContext;
  readonly #moment: { -readonly [K in keyof RowMoment]: RowMoment[K] };
  readonly #touches: number[] = [];
  readonly #row: { -readonly [K in keyof PlannedRow]: PlannedRow[K] };
  readonly #equals: EqualRows | null;

  constructor(
    private readonly table: CompiledTable,
    origin: PlacedOrigin,
    /** Of rows that are sent again: the same whenever they are read. Null: their idempotency keys have the origin's time. */
    moment: RowMoment | null,
  ) {
    this.#equals = table.relation.key.length === 0 ? new EqualRows() : null;
    this.#context = {
      operation: "read",
      version: origin.version,
      oldIsKey: false,
      commitTimeUs: origin.timeUs,
      commitLsn: origin.lsn,
      place: 0,
      totalOrder: 0,
      tableOrder: 0,
      xid: 0,
      snapshot: true,
    };
    this.#moment = moment
      ? { ...moment }
      : { commitTimeUs: origin.timeUs, ordinal: 0, part: RowPart.snapshot };
    this.#row = {
      arena: new Uint8Array(),
      before: emptyView,
      after: this.#after,
      context: this.#context,
      identity: this.#after,
      moved: null,
      moment: this.#moment,
      touches: this.#touches,
      position: () => null,
      behind: origin.behind,
    };
  }

  /** Adds row `i` of `batch` to `outlet`, if it is wanted. Returns whether it is. */
  add(
    batch: ChangeBatch,
    i: number,
    outlet: Outlet,
    isWanted?: (arena: Uint8Array, row: TupleView) => boolean,
  ): boolean {
    const { arena } = batch;
    const { table } = this;
    this.#row.arena = arena;
    this.#after.read(arena, batch.newStart[i]!, batch.newEnd[i]!);
    if (isWanted && !isWanted(arena, this.#after)) return false;
    if (this.#equals) {
      this.#moment.ordinal = this.#equals.place(arena, batch.newStart[i]!, batch.newEnd[i]!);
    }
    this.#touches.length = 0;
    if (table.order === "strict") this.#touches.push(0);
    else if (table.order === "byKey") {
      this.#touches.push(identityHash(arena, this.#after, table.relation.key));
    }
    outlet.addRow(table, this.#row);
    return true;
  }
}

/**
 * Numbers equal rows: the first is 0, the next equal one 1, and so on, so that each has a key of its own
 * and the same rows have the same keys in whatever order they come. Above `maxRemembered` different rows
 * the place in the copy tells them apart instead, so that memory stays bounded.
 */
class EqualRows {
  readonly #counts = new Map<bigint, number>();
  #rows = 0;

  place(arena: Uint8Array, start: number, end: number): number {
    this.#rows++;
    const hash = Bun.hash.wyhash(arena.subarray(start, end)) as bigint;
    const seen = this.#counts.get(hash);
    if (seen === undefined && this.#counts.size >= maxRemembered) return this.#rows;
    this.#counts.set(hash, (seen ?? 0) + 1);
    return seen ?? 0;
  }
}
