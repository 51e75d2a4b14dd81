// Names a row, so that it is known when it comes again. A change of the stream has the Idempotency-Key of its message. A row of a copy, or of a
// replay, comes again as of another point, and under another key then: what names it is its table and its key alone.

import type { ParkedEntry } from "../../../connector/parking.ts";
import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { IdempotencyKey, RowPart } from "../../format/idempotency-key.ts";

const noColumns: readonly number[] = [];
/** Of a UUIDv7, in characters: its time, in ms. */
const timeLength = 13;

/** `key`: is begun anew. */
export function rowName(
  { keyMaterial, identity: columns }: Pick<CompiledTable, "keyMaterial" | "identity">,
  { arena, identity, after, moment, context }: PlannedRow,
  key: IdempotencyKey = new IdempotencyKey(keyMaterial),
): string {
  key.begin(keyMaterial);
  // Rows of a replay have a key, and its ordinal tells replays apart.
  const ordinal = moment.part === RowPart.replay ? 0 : moment.ordinal;
  const named = context.snapshot ? { commitTimeUs: 0, ordinal, part: RowPart.snapshot } : moment;
  key.addRow(arena, identity ?? after, identity ? columns : noColumns, named);
  return key.finish();
}

/** Under which the row of this name is parked. A row of a copy has another one as of each point: they differ in their times alone. */
export function parkedId(name: string, { context: { snapshot, commitTimeUs } }: PlannedRow): string {
  if (!snapshot) return name;
  const time = Math.floor(commitTimeUs / 1_000)
    .toString(16)
    .padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}${name.slice(timeLength)}`;
}

/** The name of a row that is parked. */
export function nameOfParked({ id, isOfCopy }: Pick<ParkedEntry, "id" | "isOfCopy">): string {
  return isOfCopy ? `00000000-0000${id.slice(timeLength)}` : id;
}
