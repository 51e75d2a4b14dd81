// Records in the target database that a row was refused because a type at the sink lacks a label or an attribute of the source's, or orders
// values otherwise. If the same row is refused again, the types have been refreshed in between.

import type { Client } from "pg";
import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import type { Relation } from "../../../change/relation.ts";
import type { RefusedRow } from "../refusals/refused-row.ts";
import type { SinkTables } from "../sink-tables.ts";
import { isValueRefused } from "./incompatible-type.ts";

/**
 * The next run reads the source's types and alters the sink's. If the value is refused again, it is from before the source altered its type, and
 * the table is copied again. Its history cannot take the value either, and is compared with that copy. Where millrace may not alter types, the
 * table is set aside. Durable on return. In no transaction.
 */
export async function recordTypeRefusal(
  client: Client,
  connectorId: string,
  refused: RefusedRow,
  tables: Pick<
    SinkTables,
    "histories" | "ledger" | "inTransaction" | "setAside" | "mayAlterTypes" | "incompatible"
  >,
): Promise<void> {
  if (!isForeignValue(refused)) return;
  const { relation, commitLsn } = refused;
  const refusal = tables.mayAlterTypes ? null : await tables.incompatible(client, relation);
  if (refusal) {
    await tables.inTransaction(client, () => tables.histories.interrupt(client, relation));
    return await tables.setAside.add(client, relation, refusal, commitLsn);
  }
  if (await recordOnce(client, connectorId, relation, commitLsn)) return;
  await tables.inTransaction(client, async () => {
    await tables.histories.interrupt(client, relation);
    await tables.ledger.voidOf(client, relation);
  });
}

/** Whether the refusal may come from a user-defined type that differs at the sink. */
function isForeignValue({ error, relation }: RefusedRow): boolean {
  const isOwn = relation.columns.some(({ typeDefinitions }) => typeDefinitions !== undefined);
  return isOwn && isValueRefused(error);
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
