// How far the first copy is, and what is left. Pure.

import type { ConnectorStatus } from "../../src/connector/status.ts";
import { grouped, shortCount } from "../text/numbers.ts";

export interface CopyProgress {
  readonly done: number;
  /** 0: nobody knows. */
  readonly all: number;
  /** Whether rows are counted; otherwise tables are. */
  readonly isInRows: boolean;
  readonly note: string;
}

/** As much as is shown before a copy is done. */
const almostAll = 0.99;
/** Statistics of the source may lag behind: so many times what was expected may come. With more, there were none of a large table. */
const mostBeyond = 1.25;

export function copyProgress({ progress }: ConnectorStatus): CopyProgress {
  if (!progress) return { done: 0, all: 0, isInRows: false, note: "" };
  const { tables, tables_done, rows, estimated_rows } = progress.snapshot;
  const tablesText = `${grouped(tables_done)} of ${grouped(tables)} tables`;
  const note = rows === 0 ? tablesText : `${tablesText}, ${shortCount(rows)} rows`;
  if (estimated_rows === 0 || rows > estimated_rows * mostBeyond)
    // Of a single table that says nothing before it is done.
    return { done: tables_done, all: tables === 1 && tables_done === 0 ? 0 : tables, isInRows: false, note };
  const all = Math.max(estimated_rows, rows);
  // As long as a table is missing, more may come than was expected.
  return { done: tables_done >= tables ? all : Math.min(rows, all * almostAll), all, isInRows: true, note };
}

/** Of one table. The API gives the larger of what came and what was expected, so where they are equal nobody knows how much is left. */
export function tableCopyProgress(rows: number, estimatedRows: number): Omit<CopyProgress, "isInRows"> {
  if (rows >= estimatedRows) return { done: 0, all: 0, note: `${shortCount(rows)} rows so far` };
  return {
    done: Math.min(rows, estimatedRows * almostAll),
    all: estimatedRows,
    note: `${shortCount(rows)} of ~${shortCount(estimatedRows)} rows`,
  };
}

/** As many rows as the source expected are there, and a table is not done: its keys and indexes follow, or more rows. */
export function isFinishing({ progress }: ConnectorStatus): boolean {
  if (!progress) return false;
  const { tables, tables_done, rows, estimated_rows } = progress.snapshot;
  const isExpected = rows >= estimated_rows && rows <= estimated_rows * mostBeyond;
  return estimated_rows > 0 && isExpected && tables_done < tables;
}

/** Seconds until the copy is done at this speed; null: too early to tell. */
export function secondsLeft(done: number, all: number, rowsPerSecond: number | null): number | null {
  if (rowsPerSecond === null || rowsPerSecond <= 0 || all <= done || done === 0) return null;
  return (all - done) / rowsPerSecond;
}
