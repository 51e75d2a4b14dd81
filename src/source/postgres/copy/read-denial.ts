// Asks whether a table can be read now, for less than a copy costs.

import { type Client, escapeIdentifier } from "pg";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import { describeReadFailure } from "./read-failure.ts";

const lockTimeoutMs = 500;

/** Null: nothing is known to stand in the way. Damage is found by reading only. Throws what the connection meets. */
export async function readDenial(client: Client, table: TableShape): Promise<MillraceError | null> {
  const { relation, isPartitioned } = table;
  const columns = relation.columns.filter(({ number }) => number > 0);
  const list = columns.map(({ name }) => escapeIdentifier(name)).join(", ");
  try {
    await client.query(`begin read only; set local lock_timeout = ${lockTimeoutMs}`);
    await client.query(`select ${list} from ${isPartitioned ? "" : "only "}${sqlName(relation)} limit 0`);
    await client.query("commit");
    return null;
  } catch (error) {
    if (sqlStateOf(error) === null) throw error;
    await client.query("rollback");
    const denial = describeReadFailure(error, client.user ?? "", table);
    // What it has become is found by a look at the tables.
    return denial.code === "table_changed" ? null : denial;
  }
}
