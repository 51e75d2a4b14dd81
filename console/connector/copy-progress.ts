// How far the first copy is, and what is left. Pure.

import type { ConnectorStatus } from "../../src/connector/status.ts";
import { grouped, shortCount } from "../text/numbers.ts";

export interface CopyProgress {
  readonly done: number;
  readonly all: number;
  readonly note: string;
}

/** As much as is shown before a copy is done. */
export const almostAll = 0.99;

export function copyProgress({ progress }: ConnectorStatus): CopyProgress {
  if (!progress) return { done: 0, all: 0, note: "" };
  const { tables, tables_done, rows, estimated_rows } = progress.snapshot;
  const tablesText = `${grouped(tables_done)} of ${grouped(tables)} tables`;
  // The estimate is the source's statistics, which may lag behind: more may come than was expected.
  const all = Math.max(estimated_rows, rows);
  if (all === 0) return { done: tables_done, all: tables, note: tablesText };
  // As long as a table is missing, more may come than was expected.
  const done = tables_done >= tables ? all : Math.min(rows, all * almostAll);
  return { done, all, note: `${tablesText}, ${shortCount(rows)} rows` };
}

/** As many rows as the source expected are there, and a table is not done: its keys and indexes follow, or more rows. */
export function isFinishing({ progress }: ConnectorStatus): boolean {
  if (!progress) return false;
  const { tables, tables_done, rows, estimated_rows } = progress.snapshot;
  return estimated_rows > 0 && rows >= estimated_rows && tables_done < tables;
}

/** Seconds until the copy is done at this speed; null: too early to tell. */
export function secondsLeft(done: number, all: number, rowsPerSecond: number | null): number | null {
  if (rowsPerSecond === null || rowsPerSecond <= 0 || all <= done || done === 0) return null;
  return (all - done) / rowsPerSecond;
}
