// Replaces rows of the sink by the source's, as of points ahead of the stream: as rows are completed that the stream brought in part. No newer
// change is lost, as the stream brings what came after the point.

import type { RowKey } from "../../change/copy-part.ts";
import type { TableShape } from "../../change/relation.ts";
import { copyRows } from "../copy/copy-table.ts";
import { withHeldPoint } from "./held-point.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";

/** The stream waits while a piece is replaced. */
const pieceMs = { wanted: 200, most: 800 } as const;
const pieceRows = { first: 500, most: 10_000, least: 20 } as const;

/** Durable on return. `repaired` is called with how many rows were replaced. */
export async function repairRows(
  environment: VerifyEnvironment,
  table: TableShape,
  keys: readonly RowKey[],
  signal: AbortSignal,
  repaired: (rows: number) => void,
): Promise<void> {
  let rows: number = pieceRows.first;
  for (let at = 0; at < keys.length; ) {
    const piece = keys.slice(at, at + rows);
    const tookMs = await repairPiece(environment, table, piece, signal);
    at += piece.length;
    repaired(piece.length);
    rows = nextPiece(rows, tookMs);
  }
}

function nextPiece(rows: number, tookMs: number): number {
  if (tookMs < pieceMs.wanted) return Math.min(pieceRows.most, rows * 2);
  return tookMs > pieceMs.most ? Math.max(pieceRows.least, rows >> 1) : rows;
}

/** Returns how long the stream has waited for the rows. */
async function repairPiece(
  { source, sink, betweenBatches }: VerifyEnvironment,
  table: TableShape,
  keys: readonly RowKey[],
  signal: AbortSignal,
): Promise<number> {
  return await withHeldPoint(source, signal, (held) =>
    betweenBatches(async () => {
      await sink.flush();
      await using point = await held.take();
      if (point === null) return null;
      const beganMs = performance.now();
      await copyRows({ source, sink }, { table, keys, signal, absent: "removed" }, point);
      return performance.now() - beganMs;
    }, signal),
  );
}
