// Records in the target database that a row was refused because a type at the sink lacks a label or an attribute of the source's. If the same
// row is refused again, the types have been refreshed in between.

import type { Client } from "pg";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";
import type { RefusedRow } from "../refusals/refused-row.ts";

/**
 * The next run reads the source's types and alters the sink's. If the value is refused again, it is from before the source altered its type, and
 * the table is copied again. Durable on return.
 */
export async function recordTypeRefusal(
  client: Client,
  connectorId: string,
  refused: RefusedRow,
  ledger: CopyLedger,
): Promise<void> {
  if (!isForeignValue(refused)) return;
  await client.query("rollback");
  const { relation, commitLsn } = refused;
  if (!(await recordOnce(client, connectorId, relation, commitLsn))) await ledger.voidOf(client, relation);
}

/** Whether the refusal may come from a user-defined type that differs at the sink. */
function isForeignValue({ error, relation }: RefusedRow): boolean {
  const isOwn = relation.columns.some(({ typeDefinitions }) => typeDefinitions !== undefined);
  return isOwn && sqlStateOf(error) === sqlState.invalidTextRepresentation;
}

/** Returns false if the refusal was recorded at this position before. */
async function recordOnce(
  client: Client,
  connectorId: string,
  relation: Relation,
  commitLsn: Lsn,
): Promise<boolean> {
  const { rowCount } = await client.query(
    "insert into millrace.type_question (connector_id, table_id, resume_lsn) values ($1, $2, $3) " +
      "on conflict (connector_id, table_id) do update set resume_lsn = excluded.resume_lsn " +
      "where type_question.resume_lsn <> excluded.resume_lsn",
    [connectorId, relation.id, formatLsn(commitLsn)],
  );
  return rowCount === 1;
}
