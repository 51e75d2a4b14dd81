// A message of our own in the source's log. It comes back through decoding, so that the server reports how far it is also
// where the connector's own tables rest. When one is due is in feedback.ts.
// https://www.postgresql.org/docs/current/functions-admin.html#PG-LOGICAL-EMIT-MESSAGE

import { type Client, escapeIdentifier } from "pg";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { sqlState } from "../../../connection/sql-state.ts";

/** A standby cannot write to its log: there, the server's own keepalives have to do. */
const beatSql =
  "select pg_logical_emit_message(false, 'millrace heartbeat', ''::text) where not pg_is_in_recovery()";

/** Its arguments differ between versions. */
const functionQuery = `
select oid::regprocedure::text as name, current_user as "user" from pg_proc
where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype`;

/** Returns null, or what to tell when the role may not do it. */
export async function writeHeartbeat(client: Client): Promise<string | null> {
  try {
    await client.query(beatSql);
    return null;
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.insufficientPrivilege) throw error;
    const { rows } = await client.query<{ name: string; user: string }>(functionQuery);
    const { name, user } = rows[0] ?? { name: "pg_logical_emit_message", user: "" };
    return `The role may not write heartbeats to the source's log: GRANT EXECUTE ON FUNCTION ${name} TO ${escapeIdentifier(user)};`;
  }
}
