// Picks the receipts of one row out of batches. Pure.

import { formatLsn, type Lsn } from "../../change/lsn.ts";
import type { ExplainedDelivery } from "../../connector/explanation.ts";
import type { RowQuestion } from "../../connector/receipts.ts";
import { textsDigest } from "../../sink/delivery/receipts/key-digest.ts";
import { messageKey } from "../../sink/delivery/receipts/message-key.ts";
import { timeText } from "../../sink/delivery/receipts/open-requests.ts";
import type { Receipt } from "../../sink/delivery/receipts/receipt.ts";
import { decodeBody } from "../../sink/delivery/receipts/receipt-body.ts";
import { commitOf, operationOf, partOfMark, rowsWith } from "../../sink/delivery/receipts/receipt-rows.ts";

/** A delivery with where its change is in the source's log; null: that is not known. */
export interface RowReceipt {
  readonly delivery: ExplainedDelivery;
  readonly lsn: Lsn | null;
}

export interface RowReceiptOptions {
  readonly sinceMs: number;
  /** Messages have Idempotency-Keys. */
  readonly hasMessageKeys: boolean;
}

/** Oldest first. A request that has several changes of the row is listed for each. */
export function rowReceipts(
  body: Uint8Array,
  question: RowQuestion,
  options: RowReceiptOptions,
): readonly RowReceipt[] {
  const digest = textsDigest(question.key);
  const found: RowReceipt[] = [];
  for (const receipt of decodeBody(body)) {
    const { schema, table, lastAtMs } = receipt;
    if (schema !== question.schema || table !== question.name || lastAtMs < options.sinceMs) continue;
    for (const row of rowsWith(receipt.rows, digest)) found.push(rowReceipt(receipt, row, question, options));
  }
  return found;
}

function rowReceipt(
  receipt: Receipt,
  row: number,
  question: RowQuestion,
  { hasMessageKeys }: RowReceiptOptions,
): RowReceipt {
  const { rows, outcome, attempts, status, ms, lastAtMs, firstAtMs } = receipt;
  const commit = commitOf(rows, row);
  const lsn = commit?.lsn ?? null;
  const commitTimeUs = commit?.timeUs ?? 0;
  const mark = rows.lists.marks[rows.first + row]!;
  const ordinal = rows.ordinals?.[row];
  const key =
    receipt.key === null && ordinal !== undefined && hasMessageKeys
      ? messageKey(question, { commitTimeUs, ordinal, part: partOfMark(mark) })
      : receipt.key;
  const op = operationOf(mark) as "c";
  const committedAt = timeText(Math.floor(commitTimeUs / 1000));
  const delivery: ExplainedDelivery = {
    ...{ idempotency_key: key, at: timeText(lastAtMs), status: status === 0 ? null : status, ms },
    ...{ outcome, attempts, first_at: timeText(firstAtMs) },
    change: lsn === null ? null : { lsn: formatLsn(lsn), committed_at: committedAt, op },
    ...messageOf(receipt, row),
  };
  return { delivery, lsn };
}

function messageOf({ topic, rows }: Receipt, row: number): Pick<ExplainedDelivery, "kafka"> {
  const partition = rows.partitions?.[row];
  if (topic === undefined || partition === undefined) return {};
  const offset = rows.offsets?.[row] ?? Number.NaN;
  return { kafka: { topic, partition, offset: Number.isNaN(offset) ? null : offset } };
}
