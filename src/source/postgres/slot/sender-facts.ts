// Reads what a stream needs to know of its server before it begins.

import type { Client } from "pg";
import { type Lsn, parseLsn } from "../../../change/lsn.ts";
import { logEndSql } from "./slot.ts";

export interface SenderFacts {
  /** After so long without an answer the server ends the stream. */
  readonly walSenderTimeoutMs: number;
  readonly logEnd: Lsn;
  readonly isStandby: boolean;
}

export async function readSenderFacts(client: Client): Promise<SenderFacts> {
  const { rows } = await client.query<{ ms: number; end: string; standby: boolean }>(
    `select setting::int4 as ms, (${logEndSql})::text as end, pg_is_in_recovery() as standby
     from pg_settings where name = 'wal_sender_timeout'`,
  );
  const { ms: walSenderTimeoutMs = 60_000, end = "0/0", standby: isStandby = false } = rows[0] ?? {};
  return { walSenderTimeoutMs, logEnd: parseLsn(end), isStandby };
}
