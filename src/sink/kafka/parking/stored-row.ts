// A row as it is parked: what the source sent, as JSON, with the shape of its table. The message is made of it when it is sent, so that it has
// the schema that the registry takes by then. Pure.

import { UNCHANGED_LENGTH } from "../../../change/change-batch.ts";
import { type Lsn, lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { RowMoment } from "../../format/idempotency-key.ts";
import type { RowContext } from "../../format/row-encoder.ts";
import { TupleView } from "../../format/values/tuple-view.ts";

/** Text of a value, null, or false: the source did not send it. */
type StoredValue = string | null | false;
type Side = "before" | "after";

interface StoredRow {
  readonly relation: Relation;
  readonly before: readonly StoredValue[];
  readonly after: readonly StoredValue[];
  /** Which of them has the row's key, and which that of the other row of a change of the key. */
  readonly identity: Side | null;
  readonly moved: Side | null;
  readonly context: Omit<RowContext, "commitLsn"> & { readonly commitLsn: string };
  readonly moment: RowMoment;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();
const nullLength = -1;

export function storeRow(relation: Relation, row: PlannedRow): Uint8Array<ArrayBuffer> {
  const { arena, before, after, context, moment } = row;
  const { commitTimeUs, ordinal, part } = moment;
  const sideOf = (view: TupleView | null): Side | null =>
    view === null ? null : view === before && before.count > 0 ? "before" : "after";
  const stored: StoredRow = {
    relation,
    before: valuesOf(arena, row.moved !== null && row.identity !== before ? row.moved : before),
    after: valuesOf(arena, row.moved !== null && row.identity === before ? row.moved : after),
    identity: sideOf(row.identity),
    moved: row.moved === null ? null : row.identity === before ? "after" : "before",
    context: { ...context, commitLsn: String(context.commitLsn) },
    moment: { commitTimeUs, ordinal, part },
  };
  return encoder.encode(JSON.stringify(stored));
}

/** The row's touches are not needed any more. */
export function loadRow(bytes: Uint8Array): { readonly relation: Relation; readonly row: PlannedRow } {
  const { relation, context, moment, ...stored } = JSON.parse(decoder.decode(bytes)) as StoredRow;
  const before = tupleOf(stored.before);
  const after = tupleOf(stored.after);
  const arena = new Uint8Array(before.length + after.length);
  arena.set(before);
  arena.set(after, before.length);
  const views = { before: new TupleView(), after: new TupleView() };
  views.before.read(arena, 0, before.length);
  views.after.read(arena, before.length, arena.length);
  const row: PlannedRow = {
    arena,
    before: views.before,
    // A delete has no row after it.
    after: context.operation === "delete" ? new TupleView() : views.after,
    identity: stored.identity && views[stored.identity],
    moved: stored.moved && views[stored.moved],
    context: { ...context, commitLsn: lsn(BigInt(context.commitLsn)) as Lsn },
    moment,
    touches: [],
    position: () => null,
    behind: null,
  };
  return { relation, row: context.operation === "create" && stored.moved ? withoutBefore(row) : row };
}

/** The new row of a change of the key is written as if there had been none before. */
function withoutBefore(row: PlannedRow): PlannedRow {
  return { ...row, before: new TupleView() };
}

function valuesOf(arena: Uint8Array, view: TupleView): StoredValue[] {
  return Array.from({ length: view.count }, (_, c) => {
    const length = view.lengths[c]!;
    if (length === UNCHANGED_LENGTH) return false;
    if (length < 0) return null;
    const bytes = arena.subarray(view.starts[c]!, view.starts[c]! + length);
    return view.packed.includes(c) ? `\\x${bytes.toHex()}` : decoder.decode(bytes);
  });
}

/** As a batch has tuples; empty: there is none. */
function tupleOf(values: readonly StoredValue[]): Uint8Array {
  if (values.length === 0) return new Uint8Array();
  const texts = values.map((value) => (typeof value === "string" ? encoder.encode(value) : null));
  const bytes = texts.reduce((sum, text) => sum + 4 + (text?.length ?? 0), 2);
  const out = new Uint8Array(bytes);
  const view = new DataView(out.buffer);
  view.setUint16(0, values.length);
  let at = 2;
  values.forEach((value, c) => {
    const text = texts[c]!;
    view.setInt32(at, value === false ? UNCHANGED_LENGTH : value === null ? nullLength : text.length);
    at += 4;
    if (text) out.set(text, at);
    at += text?.length ?? 0;
  });
  return out;
}
