// Tests whether a table can be read now, at far less cost than a copy.

import { type Client, escapeIdentifier } from "pg";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import { describeReadFailure } from "./read-failure.ts";

const lockTimeoutMs = 500;

/** Null: nothing is known to prevent it. Only reading finds damage. Throws connection errors. */
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
    // The next read of the tables finds what has become of it.
    return denial.code === "table_changed" ? null : denial;
  }
}
