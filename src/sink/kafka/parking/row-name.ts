// Names a row, so that it is known when it comes again. A change of the stream has the Idempotency-Key of its message. A row of a copy, or of a
// replay, comes again as of another point, and under another key then: what names it is its table and its key alone.

import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import { IdempotencyKey, RowPart } from "../../format/idempotency-key.ts";

const noColumns: readonly number[] = [];

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
