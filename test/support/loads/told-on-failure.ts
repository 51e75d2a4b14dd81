// What is told when a play over the built program waits in vain: whether anything was to be sent, or who stands, and what for.

import type { Parked, ParkedList } from "../../../src/connector/parked-message.ts";
import type { BuiltStage } from "../program/built-stage.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";

const lastLines = 30;
const mostTried = 20;

const sessions = `
  select pid, application_name as name, state, wait_event as waits, pg_blocking_pids(pid) as behind,
    round(extract(epoch from now() - state_change)) as for_s, left(regexp_replace(query, '\\s+', ' ', 'g'), 100) as query
  from pg_stat_activity where backend_type in ('client backend', 'walsender') and pid <> pg_backend_pid()`;
const locks = `
  select pid, locktype, relation::regclass::text, mode, granted from pg_locks
  where not granted or locktype in ('advisory', 'transactionid')`;
const slots = `
  select slot_name, active_pid, restart_lsn, confirmed_flush_lsn, wal_status, pg_current_wal_lsn() from pg_replication_slots`;

/** Of the first 1,000: how many are in which state and why, of how many keys, and those that were tried. Pure. */
function counted(parked: readonly Parked[]): object {
  const kinds = Map.groupBy(parked, ({ state, cause }) => `${state}, ${cause}`);
  return {
    messages: Object.fromEntries([...kinds].map(([kind, { length }]) => [kind, length])),
    keys: new Set(parked.flatMap(({ keys }) => keys.map((key) => JSON.stringify(key)))).size,
    tried: parked.filter(({ attempts }) => attempts.length > 0).slice(0, mostTried),
  };
}

/** Fails as `work` does, and then tells of the connector, whose source is the database of the same name, and of its state. */
export async function toldOnFailure(
  work: Promise<void>,
  { server, service, api }: BuiltStage,
  stateServer: PostgresServer,
  id: string,
): Promise<void> {
  const path = `/api/v1/connectors/${id}/parked?limit=1000`;
  const facts: Readonly<Record<string, () => Promise<unknown>>> = {
    status: async () => (await api.connector(id)).status,
    parked: async () => counted((await api.call<ParkedList>("GET", path)).parked),
    "sessions of the state": () => stateServer.query(sessions),
    "locks of the state": () => stateServer.query(locks),
    "sessions of the source": () => server.query(sessions, id),
    "locks of the source": () => server.query(locks, id),
    slots: () => server.query(slots, id),
  };
  try {
    await work;
  } catch (error) {
    const told = [String(error)];
    for (const [name, fact] of Object.entries(facts))
      told.push(`${name}: ${JSON.stringify(await fact().catch(String))}`);
    const log = service.log.split("\n").slice(-lastLines);
    throw new Error([...told, ...log].join("\n"), { cause: error });
  }
}
