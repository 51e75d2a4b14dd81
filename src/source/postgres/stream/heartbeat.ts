// Writes a heartbeat: a logical message of ours in the source's log. It is decoded like a change, so the server reports
// its position even while the connector's tables do not change. feedback.ts decides when one is due.
// https://www.postgresql.org/docs/current/functions-admin.html#PG-LOGICAL-EMIT-MESSAGE

import { type Client, escapeIdentifier } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";

/** A standby cannot write to its log: there, the server's own keepalives must suffice. */
const heartbeatSql =
  "select pg_logical_emit_message(false, 'millrace heartbeat', ''::text) where not pg_is_in_recovery()";

/** The function's arguments differ between versions. */
const functionQuery = `
select oid::regprocedure::text as name, current_user as "user" from pg_proc
where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype`;

/** Returns null, or a warning with the GRANT where the role lacks the privilege. */
export async function writeHeartbeat(client: Client): Promise<string | null> {
  try {
    await client.query(heartbeatSql);
    return null;
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.insufficientPrivilege) throw error;
    const { rows } = await client.query<{ name: string; user: string }>(functionQuery);
    const { name, user } = rows[0] ?? { name: "pg_logical_emit_message", user: "" };
    return `The role may not write heartbeats to the source's log: GRANT EXECUTE ON FUNCTION ${name} TO ${escapeIdentifier(user)};`;
  }
}
