// What is told of a request that is not delivered yet, to somebody who asks for one of its rows.

import { formatLsn } from "../../../change/lsn.ts";
import type { OpenRequest, RowQuestion } from "../../../connector/receipts.ts";
import type { Delivery } from "../order/request-lane.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { type KeyDigest, textsDigest } from "./key-digest.ts";
import type { Receipt } from "./receipt.ts";
import { commitOf, type KeptRows, operationOf, rowsWith } from "./receipt-rows.ts";
import type { Trial } from "./receipted-requests.ts";

/** The parts of a delivery that have the row; the whole request where that is not known. */
export function openRequests(
  { request, work, waits }: Delivery,
  trials: ReadonlyMap<string, Trial> | undefined,
  key: readonly string[],
): readonly OpenRequest[] {
  const digest = textsDigest(key);
  const parts = (work?.parts ?? [request]).filter((part) => hasRow(part, digest));
  return parts.map((part, i): OpenRequest => {
    const trial = trials?.get(part.idempotencyKey);
    const state = trial ? "Retrying" : waits > 0 || i > 0 ? "Waiting" : "Sending";
    const change = part.receiptRows && lastChange(part.receiptRows, digest);
    return {
      idempotency_key: part.idempotencyKey,
      state,
      attempts: trial?.attempts ?? 0,
      ...(trial ? { first_at: timeText(trial.firstAtMs), last_at: timeText(trial.lastAtMs) } : {}),
      ...(trial && trial.status > 0 ? { status: trial.status } : {}),
      ...(trial?.error ? { error: trial.error } : {}),
      ...(change ? { last_change: change } : {}),
    };
  });
}

/** Delivered, and not on record yet: who asks hears that they are being sent. */
export function unsavedRequests(
  receipts: readonly Receipt[],
  { schema, name, key }: RowQuestion,
): readonly OpenRequest[] {
  const digest = textsDigest(key);
  return receipts.flatMap(({ schema: ofSchema, table, rows, outcome, attempts, ...facts }): OpenRequest[] => {
    if (ofSchema !== schema || table !== name || outcome !== "delivered") return [];
    const change = lastChange(rows, digest);
    if (!change) return [];
    const times = { first_at: timeText(facts.firstAtMs), last_at: timeText(facts.lastAtMs) };
    return [{ idempotency_key: facts.key, state: "Sending", attempts, ...times, last_change: change }];
  });
}

function hasRow({ receiptRows, touches }: OutgoingRequest, digest: KeyDigest): boolean {
  if (!receiptRows || receiptRows.count === 0) return touches.includes(digest.hash | 0);
  return rowsWith(receiptRows, digest).length > 0;
}

/** Of the last of its rows with this key. */
export function lastChange(rows: KeptRows, digest: KeyDigest): OpenRequest["last_change"] {
  const row = rowsWith(rows, digest).at(-1);
  const commit = row === undefined ? null : commitOf(rows, row);
  if (row === undefined || !commit) return undefined;
  const op = operationOf(rows.lists.marks[rows.first + row]!);
  return { lsn: formatLsn(commit.lsn), committed_at: timeText(Math.floor(commit.timeUs / 1000)), op };
}

export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
