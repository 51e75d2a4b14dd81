// Validates a Postgres sink: that the role can log in, make schemas and tables, and write. What it tries is rolled
// back: nothing is left at the sink.

import { type Client, escapeIdentifier } from "pg";
import { describePostgresError, sqlStateOf } from "../../../connection/postgres-failure.ts";
import { probePostgres } from "../../../connection/postgres-probe.ts";
import { sqlState } from "../../../connection/sql-state.ts";
import { config, type Finding, permission, ValidationLog } from "../../../connection/validation-log.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ValidateEvent } from "../../../connector/validation.ts";

/** What the role may do, as the server tells. */
interface SinkFacts {
  readonly user: string;
  readonly database: string;
  readonly mayCreate: boolean;
  readonly mayUseTemporary: boolean;
  readonly inRecovery: boolean;
  readonly readOnly: boolean;
  /** Of the database: https://www.postgresql.org/docs/current/multibyte.html */
  readonly encoding: string;
  /** Whether target_schema exists, and may be written to; both true where none is set. */
  readonly targetExists: boolean;
  readonly mayUseTarget: boolean;
  /** Whether the schema of millrace's own tables exists, and may be used; true where it does not exist. */
  readonly mayKeepBooks: boolean;
  /** Whether the role may switch off triggers and foreign keys for its session. */
  readonly mayBeReplica: boolean;
}

const factsQuery = `
  select current_user as "user", current_database() as database,
         has_database_privilege(current_database(), 'CREATE') as "mayCreate",
         has_database_privilege(current_database(), 'TEMPORARY') as "mayUseTemporary",
         (select coalesce(bool_and(has_schema_privilege(b.oid, 'CREATE') and has_schema_privilege(b.oid, 'USAGE') and not exists (
             select from pg_class c where c.relnamespace = b.oid and c.relkind = 'r'
               and not (has_table_privilege(c.oid, 'SELECT') and has_table_privilege(c.oid, 'INSERT')
                 and has_table_privilege(c.oid, 'UPDATE') and has_table_privilege(c.oid, 'DELETE')))), true)
           from pg_namespace b where b.nspname = 'millrace') as "mayKeepBooks",
         pg_is_in_recovery() as "inRecovery",
         current_setting('transaction_read_only')::bool as "readOnly",
         current_setting('server_encoding') as encoding,
         $1::text is null or n.oid is not null as "targetExists",
         $1::text is null or n.oid is null
           or has_schema_privilege(n.oid, 'CREATE') and has_schema_privilege(n.oid, 'USAGE') as "mayUseTarget"
    from (select 1) one
    left join pg_namespace n on n.nspname = $1`;

const passed: Finding = { type: "passed" };

/**
 * The events of one validation: the tests in their fixed order, then `success` or `failed`. After a failure the
 * rest are skipped. It resolves whatever it finds; only the signal makes it throw, with its reason.
 */
export async function validatePostgresSink(
  sink: PostgresSinkConfig,
  signal: AbortSignal,
): Promise<ValidateEvent[]> {
  const log = new ValidationLog();
  await probePostgres(sink.connection, "sink", signal, log, async (client) => {
    const facts = client && log.failure === null ? await readFacts(client, sink.target_schema) : null;
    for (const check of checks) log.record(check.test, facts ? check.find(facts, sink) : passed);
    const written = client && log.failure === null ? await tryToWrite(client) : passed;
    log.record(config("Write", "A table can be made, written and read; it is rolled back."), written);
  });
  return log.finish();
}

const checks = [
  {
    test: permission("Create", "The role may make schemas in the database."),
    find: (facts: SinkFacts) => databasePrivilege(facts, "CREATE", facts.mayCreate),
  },
  {
    test: permission("Temporary", "The role may make temporary tables."),
    find: (facts: SinkFacts) => databasePrivilege(facts, "TEMPORARY", facts.mayUseTemporary),
  },
  {
    test: permission("Target schema", "The role may make tables in target_schema."),
    find: (facts: SinkFacts, sink: PostgresSinkConfig) => checkTarget(facts, sink.target_schema),
  },
  {
    test: permission("Bookkeeping", "The role may keep checkpoints in schema millrace."),
    find: (facts: SinkFacts) => checkBookkeeping(facts),
  },
  {
    test: permission("Triggers", "The role may switch off triggers and foreign keys for its own sessions."),
    find: (facts: SinkFacts) => checkReplicaRole(facts),
  },
  {
    test: config("Writable", "The server takes writes."),
    find: (facts: SinkFacts) => checkWritable(facts),
  },
  {
    test: config("Encoding", "The database has every character that a source may have."),
    find: (facts: SinkFacts) => checkEncoding(facts),
  },
] as const;

function databasePrivilege(facts: SinkFacts, privilege: "CREATE" | "TEMPORARY", has: boolean): Finding {
  if (has) return passed;
  const on = `ON DATABASE ${escapeIdentifier(facts.database)} TO ${escapeIdentifier(facts.user)}`;
  return {
    type: "failed",
    reason: `The role lacks ${privilege} on the database.`,
    commands: [`GRANT ${privilege} ${on};`],
  };
}

function checkTarget(facts: SinkFacts, schema: string | null): Finding {
  if (schema === null) return { type: "passed", message: "Tables go to schemas named as at the source." };
  if (!facts.targetExists)
    return { type: "passed", message: "The schema is made when the connector starts." };
  if (facts.mayUseTarget) return passed;
  const on = `ON SCHEMA ${escapeIdentifier(schema)} TO ${escapeIdentifier(facts.user)}`;
  return {
    type: "failed",
    reason: "The role may not make tables in target_schema.",
    commands: [`GRANT USAGE, CREATE ${on};`],
  };
}

/** Another role's connectors may have made it. */
function checkBookkeeping({ mayKeepBooks, user }: SinkFacts): Finding {
  if (mayKeepBooks) return passed;
  const to = `TO ${escapeIdentifier(user)};`;
  return {
    type: "failed",
    reason:
      "Another role has made schema millrace, which holds the checkpoints, and this one may not use it.",
    commands: [
      `GRANT USAGE, CREATE ON SCHEMA millrace ${to}`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA millrace ${to}`,
    ],
  };
}

/** Without it the sink works, as long as no trigger and no foreign key there gets in its way. */
function checkReplicaRole(facts: SinkFacts): Finding {
  if (facts.mayBeReplica) return passed;
  return {
    type: "warned",
    message:
      "The role may not set session_replication_role: triggers and foreign keys at the sink stay in force. " +
      "It takes Postgres 15 or later, or a superuser.",
    commands: [`GRANT SET ON PARAMETER session_replication_role TO ${escapeIdentifier(facts.user)};`],
  };
}

function checkWritable(facts: SinkFacts): Finding {
  if (facts.inRecovery) {
    return { type: "failed", reason: "The server is a standby and takes no writes: connect to the primary." };
  }
  if (!facts.readOnly) return passed;
  return {
    type: "failed",
    reason: "Transactions are read-only by default here.",
    commands: [
      `ALTER ROLE ${escapeIdentifier(facts.user)} IN DATABASE ${escapeIdentifier(facts.database)} SET default_transaction_read_only = off;`,
    ],
  };
}

/** SQL_ASCII takes bytes as they come. */
function checkEncoding({ encoding }: SinkFacts): Finding {
  if (encoding === "UTF8" || encoding === "SQL_ASCII") return passed;
  return {
    type: "warned",
    message:
      `The database's encoding is ${encoding}: rows with characters that it does not have are refused, and stop the connector. ` +
      "Unless the source's is the same, make the database with ENCODING 'UTF8'.",
  };
}

async function readFacts(client: Client, targetSchema: string | null): Promise<SinkFacts> {
  const { rows } = await client.query<Omit<SinkFacts, "mayBeReplica">>(factsQuery, [targetSchema]);
  const facts = rows[0];
  if (!facts) throw new Error("a query without a condition gave no row");
  return { ...facts, mayBeReplica: await mayBeReplica(client) };
}

/** Tried, because the function that tells came with Postgres 15. */
async function mayBeReplica(client: Client): Promise<boolean> {
  await client.query("begin");
  try {
    await client.query("set local session_replication_role = replica");
    return true;
  } catch (error) {
    if (sqlStateOf(error) !== sqlState.insufficientPrivilege) throw error;
    return false;
  } finally {
    await client.query("rollback");
  }
}

/** Privileges alone do not tell of a full disk, a proxy that refuses DDL, or an event trigger. */
async function tryToWrite(client: Client): Promise<Finding> {
  const schema = escapeIdentifier(`millrace_check_${crypto.randomUUID().replaceAll("-", "")}`);
  await client.query("begin");
  try {
    await client.query(`create schema ${schema}`);
    await client.query(`create table ${schema}.probe (id int primary key, note text)`);
    await client.query(`insert into ${schema}.probe values (1, 'millrace')`);
    await client.query(`create view ${schema}.probed as select id from ${schema}.probe`);
    const { rowCount } = await client.query(`select from ${schema}.probed where id = 1`);
    return rowCount === 1
      ? passed
      : { type: "failed", reason: "A row that was written could not be read again." };
  } catch (error) {
    return { type: "failed", reason: describePostgresError(error, "sink").message };
  } finally {
    await client.query("rollback");
  }
}
