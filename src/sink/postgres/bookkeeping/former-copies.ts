// Drops what an earlier version of millrace left of unfinished copies, in tables that this version does not use. Those copies begin again.

import type { Client } from "pg";
import { sqlName } from "../../../connection/sql-name.ts";

/** Changes that were stored for a table are not applied any more: the table is copied again. */
const voidSql = `
update millrace.table_copy c set point_lsn = '0/0' from millrace.held_table h
where c.connector_id = $1 and h.connector_id = $1 and substring(c.table_identity from '^[0-9]+') = h.table_id::text`;

/** Durable on return. In no transaction. */
export async function dropFormerCopies(client: Client, connectorId: string): Promise<void> {
  const { rows } = await client.query<{ held: boolean; beside: boolean }>(
    "select to_regclass('millrace.held_table') is not null as held, to_regclass('millrace.copy_beside') is not null as beside",
  );
  const { held = false, beside = false } = rows[0] ?? {};
  if (!held && !beside) return;
  await client.query("begin");
  if (held) await client.query(voidSql, [connectorId]);
  if (beside) await dropTables(client, connectorId);
  const tables = [
    ...(held ? ["held_table", "held_change"] : []),
    ...(beside ? ["beside_range", "copy_beside"] : []),
  ];
  for (const table of tables) {
    await client.query(`delete from millrace.${table} where connector_id = $1`, [connectorId]);
  }
  await client.query("commit");
}

async function dropTables(client: Client, connectorId: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select name from millrace.copy_beside where connector_id = $1",
    [connectorId],
  );
  const names = rows.flatMap(({ name }) => ["rows", "touched", "mend"].map((kind) => `${kind}_${name}`));
  if (names.length === 0) return;
  await client.query(
    `drop table if exists ${names.map((name) => sqlName({ schema: "millrace", name })).join(", ")}`,
  );
}
