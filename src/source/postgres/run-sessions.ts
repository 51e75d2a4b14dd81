// The sessions in which a run asks the source and reads its tables. They bear the run's term, so that the next run can end them: a
// replica that was frozen amid a transaction would keep its locks, and the tables could not be published.

import type { Client } from "pg";
import { type BlockingSession, sessionColumns } from "../../connection/blocking-session.ts";
import { connectPostgres } from "../../connection/postgres-client.ts";
import { type RunOwner, sessionName, sessionStanding } from "../../connection/run-session.ts";
import type { PostgresConnection } from "../../connector/config/connection.ts";
import { leaseLost } from "../../errors/lease-lost.ts";

const purposes = ["control", "snapshot"] as const;
type Purpose = (typeof purposes)[number];

/** Whose sessions they are. */
export interface SourceRun extends RunOwner {
  readonly connectorId?: string | undefined;
}

/** As `connectPostgres`. Without a term the session has no name of its own. */
export async function connectForRun(
  connection: PostgresConnection,
  purpose: Purpose,
  signal: AbortSignal,
  run: SourceRun,
): Promise<Client> {
  const name = isFenced(run) ? sessionName(baseName(purpose, run), run) : undefined;
  return await connectPostgres(connection, purpose, signal, "source", name);
}

const sessionsQuery = `
select a.pid, ${sessionColumns} from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid() and a.application_name like 'millrace %'`;

/** Ends the sessions of lower terms. Throws `lease_lost` where there is one of a higher term. */
export async function endOlderSessions(client: Client, run: SourceRun): Promise<void> {
  if (!isFenced(run)) return;
  const { rows } = await client.query<BlockingSession>(sessionsQuery);
  const standings = rows.map((row) => standingOf(row, run));
  if (standings.includes("newer")) throw leaseLost();
  const older = rows.filter((_, i) => standings[i] === "older");
  if (older.length === 0) return;
  await client.query("select pg_terminate_backend(pid) from unnest($1::int4[]) as p (pid)", [
    older.map(({ pid }) => pid),
  ]);
}

function standingOf(session: BlockingSession, run: SourceRun) {
  const standings = purposes.map((purpose) => sessionStanding(session, baseName(purpose, run), run));
  return standings.find((standing) => standing !== "foreign") ?? "foreign";
}

function isFenced({ connectorId, owner, term }: SourceRun): boolean {
  return connectorId !== undefined && owner !== undefined && term !== undefined && term !== null;
}

/** The owner alone may be that of two connectors, which were created at one time. */
function baseName(purpose: Purpose, { connectorId }: SourceRun): string {
  return `millrace ${purpose} ${connectorId}`;
}
