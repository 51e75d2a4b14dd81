// Rows of a table `orders` with a key alone, as they are handed to what keeps receipts of messages.

import { lsn } from "../../../src/change/lsn.ts";
import type { PlannedRow } from "../../../src/sink/delivery/stream/request-plan.ts";
import { compileTable } from "../../../src/sink/format/compiled-table.ts";
import type { RowEncoder } from "../../../src/sink/format/row-encoder.ts";
import type { TupleView } from "../../../src/sink/format/values/tuple-view.ts";
import { relation } from "../rows/batch-fixture.ts";

export const ordersTable = compileTable(relation("orders", [["id", 20, "bigint"]]), {} as RowEncoder);

export function plannedRow(id: number): PlannedRow {
  const arena = new TextEncoder().encode(String(id));
  const view = { starts: Int32Array.of(0), lengths: Int32Array.of(arena.length) } as TupleView;
  const context = { operation: "create", commitLsn: lsn(BigInt(id)), commitTimeUs: id * 1_000 };
  const moment = { commitTimeUs: id * 1_000, ordinal: 0, part: 0 };
  return { arena, identity: view, context, moment, touches: [] } as unknown as PlannedRow;
}
