// Finds the standbys for which a walsender waits, from version 17 on: it sends nothing that they do not have, so that what a connector has got
// outlives their promotion.
// https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-SYNCHRONIZED-STANDBY-SLOTS

import type { Client } from "pg";

const standbyQuery = `
select name, coalesce(standby.active, false) as "isActive"
from pg_replication_slots own
join pg_stat_activity sender on sender.pid = own.active_pid and sender.wait_event = 'WaitForStandbyConfirmation'
cross join regexp_split_to_table(current_setting('synchronized_standby_slots', true), '[\\s,"]+') as name
left join pg_replication_slots standby on standby.slot_name = name
where own.slot_name = $1 and name <> ''
order by name`;

interface Standby {
  /** Of its slot. */
  readonly name: string;
  readonly isActive: boolean;
}

/** Names those that the slot's walsender waits for now, with the SQL that takes them out; null: it waits for none. */
export async function describeAwaitedStandbys(client: Client, slot: string): Promise<string | null> {
  const { rows } = await client.query<Standby>(standbyQuery, [slot]);
  if (rows.length === 0) return null;
  const away = rows.filter(({ isActive }) => !isActive);
  // Where all are connected, it is not known which are slow.
  const awaited = away.length > 0 ? away : rows;
  const others = rows.filter((row) => !awaited.includes(row));
  return (
    `the standbys of synchronized_standby_slots that do not receive it (${listed(awaited)}). Let them follow again, or take them out: ` +
    `ALTER SYSTEM SET synchronized_standby_slots = '${listed(others)}'; SELECT pg_reload_conf();`
  );
}

function listed(standbys: readonly Standby[]): string {
  return standbys.map(({ name }) => name).join(", ");
}
