// Reads what a stream needs to know of its server before it begins.

import type { Client } from "pg";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import { logEndSql } from "./slot.ts";

export interface SenderFacts {
  /** After so long without an answer the server ends the stream. */
  readonly walSenderTimeoutMs: number;
  readonly logEnd: Lsn;
}

export async function readSenderFacts(client: Client): Promise<SenderFacts> {
  const { rows } = await client.query<{ ms: number; end: string }>(
    `select setting::int4 as ms, (${logEndSql})::text as end from pg_settings where name = 'wal_sender_timeout'`,
  );
  return { walSenderTimeoutMs: rows[0]?.ms ?? 60_000, logEnd: parseLsn(rows[0]?.end ?? "0/0") };
}
