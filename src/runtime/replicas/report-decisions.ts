// Decides which reports a holder has to write. Pure.

/** A holder looks for what is new of its connectors this often, however many it holds. */
export const writeMs = 500;
/** It writes changes of statuses at most this often: together with `readMs` they are at the others well within a second. */
export const changeMs = 100;
/** Tables are written less often, as they are read only when somebody asks for them. */
const tablesMs = 2_000;
const largeTablesMs = 10_000;
/** In characters. */
const largeTables = 256 * 1024;
/**
 * A report that stays the same is written again all the same: the table of reports survives no crash of the state's
 * server, and nobody tells a holder that it is empty.
 */
const statusAgainMs = 30_000;
const tablesAgainMs = 300_000;

/** What was written of a connector last. */
export interface Written {
  readonly term: number;
  /** What tells whether there is something new: the report itself, or a number that rises with each change. */
  readonly content: string;
  readonly atMs: number;
  /** In characters. */
  readonly length: number;
}

/** What could be written now. */
export interface Candidate {
  readonly id: string;
  readonly term: number;
  readonly content: string;
  readonly nowMs: number;
}

export function isStatusDue(written: Written | undefined, now: Candidate): boolean {
  // At once: whoever reads it has only what another holder has written.
  if (written?.term !== now.term) return true;
  return written.content !== now.content || now.nowMs - written.atMs >= againMs(now.id, statusAgainMs);
}

export function areTablesDue(written: Written | undefined, now: Candidate): boolean {
  if (written?.term !== now.term) return true;
  const sinceMs = now.nowMs - written.atMs;
  if (written.content === now.content) return sinceMs >= againMs(now.id, tablesAgainMs);
  return sinceMs >= (written.length > largeTables ? largeTablesMs : tablesMs);
}

/** Spread over the last third of the time, so that a replica that has taken many at once does not write all at once again. */
export function againMs(id: string, longestMs: number): number {
  // Ids are often alike: Wyhash spreads them all the same.
  const part = Number(BigInt(Bun.hash(id)) % 1_000n) / 1_000;
  return longestMs - part * (longestMs / 3);
}
