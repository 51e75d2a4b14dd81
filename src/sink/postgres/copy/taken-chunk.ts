// A chunk of an incremental copy that waits in its staging table, and how much of it is written.

import type { Lsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import type { TellPhase } from "../../copy-sink.ts";
import type { TargetName } from "../schema/target-name.ts";

export interface TakenChunk {
  readonly staging: TargetName;
  readonly range: PageRange | null;
  readonly point: Lsn;
  readonly rows: number;
  readonly pages: number;
  /** Given where the chunk is the whole table. */
  readonly phase: TellPhase | undefined;
  /** The next page of the staging table to be written to the target. */
  next: number;
}

/** Pages hold about as many rows each. Those that the target has already are not staged, and count as written with the others. */
export function writtenOf({ rows, pages, next }: Pick<TakenChunk, "rows" | "pages" | "next">): number {
  return pages === 0 ? rows : Math.floor((rows * next) / pages);
}
