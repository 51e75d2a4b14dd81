// What is kept of a request that is parked: its entry in memory, and the message in the state.

import { formatLsn } from "../../../change/lsn.ts";
import type { ParkedEntry, ParkedMessage } from "../../../connector/parking.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import { placesOf, type RowsRequest, wholeBody } from "./request-parts.ts";
import { rowKeys } from "./row-keys.ts";

export function entryOf(request: OutgoingRequest): ParkedEntry {
  const { idempotencyKey: id, schema, table, touches, barrier, body, rowMarks } = request;
  const rows = rowMarks ? placesOf(request as RowsRequest) : [];
  const isWide = rowMarks ? rows.some(({ hashes }) => hashes.length === 0) : barrier || touches.length === 0;
  const firstRows = new Map<number, number>();
  rows.forEach(({ hashes }, row) => {
    for (const hash of hashes) firstRows.getOrInsert(hash, row);
  });
  return {
    id,
    schema,
    table,
    isWide,
    bytes: body.length,
    hashes: [...new Set(touches)],
    firstRows: rows.length > 1 ? [...firstRows.values()] : null,
    places: rowMarks ? rows.map(({ place }) => place) : [0n],
    isOfCopy: rowMarks?.isOfCopy ?? false,
  };
}

export async function messageOf(
  request: OutgoingRequest,
  facts: Pick<ParkedMessage, "cause" | "attempts" | "mayHaveArrived">,
): Promise<ParkedMessage> {
  const { rows, rowMarks } = request;
  return {
    ...entryOf(request),
    rows,
    ...facts,
    keys: rowMarks ? rowKeys(request as RowsRequest) : "[]",
    versions: rowMarks?.versions ?? [0],
    body: await Bun.zstdCompress(wholeBody(request.body)),
    ...firstCommit(request),
  };
}

/** A part of a request has the position and the time of the whole request. */
function firstCommit({
  rowMarks,
  position,
  idempotencyKey,
}: OutgoingRequest): Pick<ParkedMessage, "firstLsn" | "committedAtMs"> {
  const committedAtMs = rowMarks ? Math.floor(rowMarks.commitTimesUs[0]! / 1_000) : timeOfKey(idempotencyKey);
  const commitLsn = position && (rowMarks?.commitLsns[0] ?? position.commitLsn);
  return { firstLsn: commitLsn === null ? null : formatLsn(commitLsn), committedAtMs };
}

/** The time in a UUIDv7: that of the first row's commit. */
function timeOfKey(key: string): number {
  return Number.parseInt(key.slice(0, 8) + key.slice(9, 13), 16);
}
