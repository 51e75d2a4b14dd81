// Picks the receipts of one row out of batches. Pure.

import { formatLsn } from "../../change/lsn.ts";
import type { ExplainedDelivery } from "../../connector/explanation.ts";
import type { RowQuestion } from "../../connector/receipts.ts";
import { textsDigest } from "../../sink/delivery/receipts/key-digest.ts";
import { messageKey } from "../../sink/delivery/receipts/message-key.ts";
import { timeText } from "../../sink/delivery/receipts/open-requests.ts";
import type { Receipt } from "../../sink/delivery/receipts/receipt.ts";
import { decodeBody } from "../../sink/delivery/receipts/receipt-body.ts";
import { commitOf, operationOf, partOfMark, rowsWith } from "../../sink/delivery/receipts/receipt-rows.ts";

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
): readonly ExplainedDelivery[] {
  const digest = textsDigest(question.key);
  const found: ExplainedDelivery[] = [];
  for (const receipt of decodeBody(body)) {
    const { schema, table, lastAtMs } = receipt;
    if (schema !== question.schema || table !== question.name || lastAtMs < options.sinceMs) continue;
    for (const row of rowsWith(receipt.rows, digest)) found.push(deliveryOf(receipt, row, question, options));
  }
  return found;
}

function deliveryOf(
  receipt: Receipt,
  row: number,
  question: RowQuestion,
  { hasMessageKeys }: RowReceiptOptions,
): ExplainedDelivery {
  const { rows, outcome, attempts, status, ms, lastAtMs, firstAtMs } = receipt;
  const commit = commitOf(rows, row);
  const commitTimeUs = commit?.timeUs ?? 0;
  const mark = rows.lists.marks[rows.first + row]!;
  const ordinal = rows.ordinals?.[row];
  const key =
    receipt.key === null && ordinal !== undefined && hasMessageKeys
      ? messageKey(question, { commitTimeUs, ordinal, part: partOfMark(mark) })
      : receipt.key;
  const op = operationOf(mark) as "c";
  const committedAt = timeText(Math.floor(commitTimeUs / 1000));
  return {
    idempotency_key: key,
    at: timeText(lastAtMs),
    status: status === 0 ? null : status,
    ms,
    outcome,
    attempts,
    first_at: timeText(firstAtMs),
    change: commit === null ? null : { lsn: formatLsn(commit.lsn), committed_at: committedAt, op },
    ...messageOf(receipt, row),
  };
}

function messageOf({ topic, rows }: Receipt, row: number): Pick<ExplainedDelivery, "kafka"> {
  const partition = rows.partitions?.[row];
  if (topic === undefined || partition === undefined) return {};
  const offset = rows.offsets?.[row] ?? Number.NaN;
  return { kafka: { topic, partition, offset: Number.isNaN(offset) ? null : offset } };
}
