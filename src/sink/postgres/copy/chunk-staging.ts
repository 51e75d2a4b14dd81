// Takes a chunk of an incremental copy into a staging table of its own. The chunk is compared with the target here, so that the stream
// does not wait for the comparison.

import type { Client } from "pg";
import type { TupleForm } from "../../../change/change-batch.ts";
import type { Lsn } from "../../../change/lsn.ts";
import type { PageRange } from "../../../change/page-range.ts";
import { columnNames } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TellPhase } from "../../copy-sink.ts";
import { copyIn } from "../copy-in/copy-in.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import { type ChunkTarget, differingSql, recordSeenSql } from "./chunk-sql.ts";

const raw = "pg_temp.millrace_chunk";

export interface ChunkStaging {
  readonly chunk: ChunkTarget;
  readonly staging: TargetName;
  /** The target was empty when the copy started. No row of a chunk is there already, so none is compared. */
  readonly isNew: boolean;
  /** Record the keys of the rows: rows that no chunk brings are to be deleted. */
  readonly recordsSeen: boolean;
}

/** A chunk that waits in its staging table, and how much of it is written. */
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

/** In the open transaction. Returns how many rows the chunk had, and how many pages are staged. */
export async function stageChunk(
  client: Client,
  { chunk, staging, isNew, recordsSeen }: ChunkStaging,
  form: TupleForm,
  bytes: AsyncIterable<Uint8Array>,
): Promise<{ readonly rows: number; readonly pages: number }> {
  const { relation } = chunk;
  const isComparing = !isNew || recordsSeen;
  const into = isComparing ? raw : sqlName(staging);
  const create = isComparing ? `temporary table ${into} on commit drop` : `unlogged table ${into}`;
  const columns = sqlList(columnNames(relation));
  // An attempt that was interrupted may have left one.
  await client.query(`drop table if exists ${sqlName(staging)}`);
  await client.query(
    `create ${create} as select ${columns} from ${sqlName(chunk.tables.model)} with no data`,
  );
  const rows = await copyIn(client, `copy ${into} (${columns}) from stdin (format ${form})`, bytes);
  if (isComparing) {
    await client.query(`analyze ${raw}`);
    if (recordsSeen) await client.query(recordSeenSql(chunk, raw));
    await client.query(`create unlogged table ${sqlName(staging)} as ${differingSql(chunk, raw)}`);
  }
  return { rows, pages: await pagesOf(client, staging) };
}

export async function pagesOf(client: Client, table: TargetName): Promise<number> {
  const { rows } = await client.query<{ pages: number }>(
    "select (pg_relation_size($1::regclass) / current_setting('block_size')::int8)::float8 as pages",
    [sqlName(table)],
  );
  return rows[0]!.pages;
}

/** Pages hold about as many rows each. Those that the target has already are not staged, and count as written with the others. */
export function writtenOf({ rows, pages, next }: Pick<TakenChunk, "rows" | "pages" | "next">): number {
  return pages === 0 ? rows : Math.floor((rows * next) / pages);
}
