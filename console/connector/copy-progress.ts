// How far the first copy is, and what is left. Pure.

import type { ConnectorStatus, RunProgress } from "../../src/connector/status.ts";
import type { TableStatus } from "../../src/connector/table-status.ts";
import { grouped, plural, shortCount } from "../text/numbers.ts";

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

export function copyProgress({ progress, status }: ConnectorStatus): CopyProgress {
  if (!progress) return { done: 0, all: 0, isInRows: false, note: "" };
  const { phase } = progress.snapshot;
  const { tables, tables_done, rows, estimated_rows } = progress.snapshot;
  const tablesText = `${grouped(tables_done)} of ${plural(tables, "table")}`;
  // Nothing is read while the sink is away.
  const beginning = status.retry || tables_done >= tables ? tablesText : `${tablesText}, reading`;
  // Of a single table, a count of tables says nothing before it is done.
  const byTables = {
    done: tables_done,
    all: tables === 1 && tables_done === 0 ? 0 : tables,
    isInRows: false,
  };
  if (isRead(phase) && !status.retry && tables_done < tables)
    return { ...byTables, note: `${tablesText}, ${afterReading(rows, phase)}` };
  if (isBeyondEstimate(progress.snapshot)) {
    const note = rows === 0 ? beginning : `${tablesText}, ${grouped(rows)} rows so far`;
    return { ...byTables, note };
  }
  const note = rows === 0 ? beginning : `${tablesText}, ${shortCount(rows)} rows`;
  const all = Math.max(estimated_rows, rows);
  // As long as a table is missing, more may come than was expected.
  return { done: tables_done >= tables ? all : Math.min(rows, all * almostAll), all, isInRows: true, note };
}

type Phase = RunProgress["snapshot"]["phase"];

/** A service of an older version does not tell. */
function isRead(phase: Phase): phase is "Writing" | "Finishing" {
  return phase !== undefined && phase !== "Reading";
}

/** What the sink still does once all rows are read. */
function afterReading(rows: number, phase: "Writing" | "Finishing"): string {
  return phase === "Writing"
    ? `all ${grouped(rows)} rows are read and being written into the table`
    : `all ${grouped(rows)} rows are written; keys and indexes follow`;
}

/** Nobody knows how many rows there are: the source expected none, or far fewer. */
function isBeyondEstimate({ rows, estimated_rows }: RunProgress["snapshot"]): boolean {
  return estimated_rows === 0 || rows > estimated_rows * mostBeyond;
}

export interface NoEstimate {
  readonly reason: string;
  /** SQL for the source. */
  readonly commands: readonly string[];
}

/** Why there is no percentage; null: there is one, or nothing is copied yet. */
export function noEstimate({ progress, state }: ConnectorStatus): NoEstimate | null {
  if (!progress || !state.snapshot || progress.snapshot.rows === 0) return null;
  const { rows, estimated_rows, tables } = progress.snapshot;
  // What is left then does not go by rows.
  if (!isBeyondEstimate(progress.snapshot) || isRead(progress.snapshot.phase)) return null;
  const what = tables === 1 ? "the table was" : "the tables were";
  const why =
    estimated_rows === 0
      ? `the source has no estimate of the rows, as ${what} never analysed.`
      : `the source expected ${shortCount(estimated_rows)} rows, and there are ${shortCount(rows)} already: its statistics are old.`;
  return {
    reason: `No percentage in rows: ${why}`,
    commands: [tables === 1 ? `ANALYZE ${state.snapshot.name};` : "ANALYZE;"],
  };
}

type TableCopy = Pick<NonNullable<TableStatus["copy"]>, "rows" | "estimated_rows" | "phase" | "rows_written">;

/** Of one table. The API gives the larger of what came and what was expected, so where they are equal nobody knows how much is left. */
export function tableCopyProgress({
  rows,
  estimated_rows: estimatedRows,
  phase,
  rows_written: written,
}: TableCopy): Omit<CopyProgress, "isInRows"> {
  if (isRead(phase)) {
    const known = phase === "Writing" && written !== undefined;
    return { done: known ? written : 0, all: known ? rows : 0, note: afterReading(rows, phase) };
  }
  if (rows === 0) return { done: 0, all: 0, note: "reading" };
  if (rows >= estimatedRows)
    return { done: 0, all: 0, note: `${grouped(rows)} rows so far, number not known` };
  return {
    done: Math.min(rows, estimatedRows * almostAll),
    all: estimatedRows,
    note: `${shortCount(rows)} of ~${shortCount(estimatedRows)} rows`,
  };
}

/** Seconds until the copy is done at this speed; null: too early to tell. */
export function secondsLeft(done: number, all: number, rowsPerSecond: number | null): number | null {
  if (rowsPerSecond === null || rowsPerSecond <= 0 || all <= done || done === 0) return null;
  return (all - done) / rowsPerSecond;
}
