// Remembers, in the target database, that a row was refused because the sink's types lack what the source's have: a label, an attribute.
// Whoever is refused the same row again knows that the types were looked at in between.

import type { Client } from "pg";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import type { RefusedRow } from "../apply/refused-row.ts";
import type { CopyLedger } from "../bookkeeping/copy-ledger.ts";

/**
 * The run that begins behind the refusal looks at the source's types, and makes the sink's fit. A value that is refused again is
 * from before they were changed at the source: a copy brings what has become of it. Durable on return.
 */
export async function askForTypes(
  client: Client,
  connectorId: string,
  refused: RefusedRow,
  ledger: CopyLedger,
): Promise<void> {
  if (!isForeignValue(refused)) return;
  await client.query("rollback");
  const { relation, commitLsn } = refused;
  if (!(await ask(client, connectorId, relation, commitLsn))) await ledger.voidOf(client, relation);
}

/** Whether one of the source's own types may have another form at the sink. */
function isForeignValue({ error, relation }: RefusedRow): boolean {
  const isOwn = relation.columns.some(({ typeDefinitions }) => typeDefinitions !== undefined);
  return isOwn && sqlStateOf(error) === sqlState.invalidTextRepresentation;
}

/** False: it was asked at this place before. */
async function ask(
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
