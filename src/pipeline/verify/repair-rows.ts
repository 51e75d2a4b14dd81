// Replaces rows of the sink by the source's, as of points at which the stream stands exactly. No newer change is lost, as the stream brings what
// came after the point. And the history of the table has all that came before it: ahead of the stream, it would get the same change twice.

import type { RowKey } from "../../change/copy-part.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { RowDifference } from "../../comparison/unmatched-rows.ts";
import { untilAborted } from "../../concurrency/until-aborted.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { VerifySource } from "../../source/verify-source.ts";
import { copyRows, type RowsOfTable } from "../copy/copy-table.ts";
import { atHeldPoint } from "../held-point.ts";
import type { OpenedSides } from "./opened-sides.ts";
import { RepairPace } from "./repair-pace.ts";
import type { VerifyEnvironment } from "./verify-environment.ts";

/** So many rows are replaced at once at most where one may have a unique value of another. The stream waits for all of them. */
const mostTogether = 50_000;

export class RowRepair {
  readonly #pace = new RepairPace();
  #together: readonly RowDifference[] = [];

  constructor(
    private readonly environment: VerifyEnvironment,
    private readonly opened: Pick<OpenedSides, "table" | "source" | "sink">,
    private readonly signal: AbortSignal,
    /** Called with how many rows were replaced, durably. */
    private readonly repaired: (rows: number) => void,
  ) {}

  /** Replaces these rows, or has `finish` do so. */
  async take(differences: readonly RowDifference[]): Promise<void> {
    if (!this.opened.sink.areRepairedTogether) return await this.#inPieces(differences);
    this.#together = [...this.#together, ...differences];
    if (this.#together.length > mostTogether) throw tooManyTogether(this.opened.table);
  }

  async finish(): Promise<void> {
    if (this.#together.length > 0) await this.#replace(this.#together);
  }

  async #inPieces(differences: readonly RowDifference[]): Promise<void> {
    for (let at = 0; at < differences.length; ) {
      const piece = differences.slice(at, at + this.#pace.rows);
      this.#pace.took(piece.length, await this.#replace(piece));
      at += piece.length;
    }
  }

  /** Returns how long the stream has waited for the rows. */
  async #replace(differences: readonly RowDifference[]): Promise<number> {
    const { environment, signal } = this;
    const { table, source } = this.opened;
    const keys = differences.map(({ key }) => key);
    const asked = await untilAborted(keysOfSource(table, source, differences), signal);
    const tookMs = await repairPiece(environment, { table, keys, asked, signal, absent: "removed" });
    this.repaired(differences.length);
    return tookMs;
  }
}

function tooManyTogether({ relation }: TableShape): MillraceError {
  return new MillraceError(
    "unsupported_kind",
    `Rows of ${qualifiedName(relation)} cannot be repaired one by one. More than ${mostTogether} differ, and one may have a unique value that another ` +
      "one needs: its table at the sink has a further unique index. A Snapshot task with truncate copies it anew.",
  );
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
async function repairPiece(environment: VerifyEnvironment, rows: RowsOfTable): Promise<number> {
  return await atHeldPoint(environment, rows.signal, async (point) => {
    await environment.sink.flush();
    const beganMs = performance.now();
    await copyRows(environment, rows, point);
    return performance.now() - beganMs;
  });
}
