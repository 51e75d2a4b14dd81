// Replaces rows of the sink by the source's, as of points at which the stream stands exactly. No newer change is lost, as the stream brings what
// came after the point. And the history of the table has all that came before it: ahead of the stream, it would get the same change twice.

import type { RowKey } from "../../change/copy-part.ts";
import type { TableShape } from "../../change/relation.ts";
import { untilAborted } from "../../change/until-aborted.ts";
import type { RowDifference } from "../../comparison/unmatched-rows.ts";
import type { SnapshotPoint } from "../../source/table-source.ts";
import type { VerifySource } from "../../source/verify-source.ts";
import { copyRows, type RowsOfTable } from "../copy/copy-table.ts";
import { withHeldPoint } from "./held-point.ts";
import { RepairPace } from "./repair-pace.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";

/** Durable on return. `repaired` is called with how many rows were replaced. */
export async function repairRows(
  environment: VerifyEnvironment,
  table: TableShape,
  verification: Pick<VerifySource, "keysThatFit">,
  differences: readonly RowDifference[],
  signal: AbortSignal,
  repaired: (rows: number) => void,
): Promise<void> {
  const pace = new RepairPace();
  for (let at = 0; at < differences.length; ) {
    const piece = differences.slice(at, at + pace.rows);
    const keys = piece.map(({ key }) => key);
    const asked = await untilAborted(keysOfSource(table, verification, piece), signal);
    const tookMs = await repairPiece(environment, { table, keys, asked, signal, absent: "removed" });
    at += piece.length;
    repaired(piece.length);
    pace.took(tookMs);
  }
}

/** The keys that the source may have a row of. It may have one by now also of a key that only the sink had. */
async function keysOfSource(
  table: TableShape,
  verification: Pick<VerifySource, "keysThatFit">,
  piece: readonly RowDifference[],
): Promise<readonly RowKey[]> {
  const known = piece.flatMap(({ key, kind }) => (kind === "Extra" ? [] : [key]));
  const extra = piece.flatMap(({ key, kind }) => (kind === "Extra" ? [key] : []));
  return [...known, ...(await verification.keysThatFit(table, extra))];
}

/** Returns how long the stream has waited for the rows. */
async function repairPiece(
  { source, sink, exactlyAt }: VerifyEnvironment,
  rows: RowsOfTable,
): Promise<number> {
  const { signal } = rows;
  return await withHeldPoint(source, signal, async (held) => {
    await using points = new AsyncDisposableStack();
    const taken: { point: SnapshotPoint | null } = { point: null };
    const place = async () => {
      taken.point = points.use(await held.take());
      return taken.point?.lsn ?? null;
    };
    const copy = async () => {
      await sink.flush();
      const beganMs = performance.now();
      await copyRows({ source, sink }, rows, taken.point!);
      return performance.now() - beganMs;
    };
    return await exactlyAt(place, copy, signal);
  });
}
