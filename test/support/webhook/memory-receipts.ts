// Receipts as the state would keep them, in memory.

import type {
  ReceiptBatch,
  ReceiptBatches,
  ReceiptCall,
  ReceiptTable,
} from "../../../src/connector/receipts.ts";
import type { Receipt } from "../../../src/sink/delivery/receipts/receipt.ts";
import { decodeBody } from "../../../src/sink/delivery/receipts/receipt-body.ts";

export class MemoryReceipts {
  readonly batches = new Map<string, ReceiptBatch>();
  tables: readonly ReceiptTable[] | null = null;

  add(batches: ReceiptBatches): void {
    for (const [id, batch] of batches) this.batches.set(id, batch);
  }

  answer(call: ReceiptCall): void {
    if (call.kind === "tables") this.tables = call.tables;
    else if (call.maxAgeMs === 0) {
      this.batches.clear();
      this.tables = null;
    }
  }

  /** Oldest first. */
  list(): readonly Receipt[] {
    return [...this.batches.values()].flatMap(({ body }) => [...decodeBody(body)]);
  }
}
