// Connections to the sink's server, set up for applying changes that have been checked once already, at the source.

import { type Client, DatabaseError } from "pg";
import { connectPostgres, destroyClient } from "../../connection/postgres-client.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";

const insufficientPrivilege = "42501";

/**
 * Planner settings: a merge joins a few staged rows to a large table by its key, and the planner, which has no statistics
 * of a temporary table, would rather read the large one whole.
 */
const applySettings =
  "set search_path = ''; set jit = off; set enable_hashjoin = off; set enable_mergejoin = off";
const copySettings = "set search_path = ''; set jit = off";

export async function openApplySession(
  config: PostgresSinkConfig,
  signal: AbortSignal,
  warn: (reason: string) => void,
): Promise<Client> {
  const client = await connectPostgres(config.connection, "apply", signal, "sink");
  return await setUp(client, applySettings, warn);
}

export async function openCopySession(config: PostgresSinkConfig, signal: AbortSignal): Promise<Client> {
  const client = await connectPostgres(config.connection, "copy", signal, "sink");
  return await setUp(client, copySettings, () => {});
}

async function setUp(client: Client, settings: string, warn: (reason: string) => void): Promise<Client> {
  try {
    await client.query(settings);
    await becomeReplica(client, warn);
    return client;
  } catch (error) {
    destroyClient(client);
    throw error;
  }
}

/**
 * Switches triggers, rules and foreign keys off for this session: the source has obeyed them already.
 * https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE
 */
async function becomeReplica(client: Client, warn: (reason: string) => void): Promise<void> {
  try {
    await client.query("set session_replication_role = replica");
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== insufficientPrivilege) throw error;
    warn(
      "The sink's role may not set session_replication_role: triggers and foreign keys at the sink stay in force. " +
        `Run GRANT SET ON PARAMETER session_replication_role TO ${client.user}; (PostgreSQL 15 or later).`,
    );
  }
}
