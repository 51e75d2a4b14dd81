// What there is of an installation, as the state's server sees it at one moment.

import { type SQL, sql } from "drizzle-orm";
import { leases, replicas } from "../replica-tables.ts";

/** What `viewSql` returns: JSON, so that one statement brings everything. */
export interface ViewRow {
  /** Of `ReplicaJson`, by id. */
  readonly replicas: string;
  /** Of connectors without a holder, by id, with what `FreeLease` has. */
  readonly free: string;
  /** When the next lease of another instance ends; null: none. */
  readonly next: number | null;
  /** A replica was seen in the future: the server's clock was set back, or another server has taken its place. */
  readonly ahead: boolean;
}

export interface ReplicaJson {
  readonly id: string;
  readonly instance: string;
  readonly host: string;
  readonly version: string;
  readonly weight: number;
  readonly startedMs: number;
  readonly seenMs: number;
  readonly isAlive: boolean;
  readonly held: number;
  readonly active: number;
  readonly trouble: string | null;
}

export function viewSql(instance: string): SQL {
  const isFree = sql`(l.holder is null or l.ends_at <= at.now)`;
  return sql`
      with at as materialized (select clock_timestamp() as now),
      loads as (
        select l.holder, count(*) as held, count(*) filter (where l.active) as active
        from ${leases} l cross join at where not ${isFree} group by l.holder
      )
      select (
        select coalesce(json_agg(${replicaJson(sql`at.now`, { held: sql`loads.held`, active: sql`loads.active` })} order by r.id), '[]')::text
        from ${replicas} r cross join at left join loads on loads.holder = r.instance
      ) as replicas, (
        select coalesce(json_agg(json_build_object('connectorId', l.connector_id, 'active', l.active, 'freeMs',
          ${msOf(sql`at.now - coalesce(l.ends_at, at.now)`)}) order by l.connector_id), '[]')::text
        from ${leases} l cross join at where ${isFree}
      ) as free, (
        select min(${msOf(sql`l.ends_at - at.now`)}) from ${leases} l cross join at
        where not ${isFree} and l.holder <> ${instance}::uuid
      ) as next, exists (select from ${replicas} r cross join at where r.seen_at > at.now) as ahead`;
}

/**
 * Counts replicas that were seen in the future as seen now, and lets their leases last as long as any, from now. So one that is dead does not
 * count as alive until the clock has come that far, and one that lives loses nothing: by its own clock its leases end before that. Waits for
 * nobody.
 */
export const setBackSql = sql`
  with ahead as (
    select r.id, r.instance, make_interval(secs => r.lease_ms / 1000.0) as lasting
    from ${replicas} r where r.seen_at > clock_timestamp() for no key update of r skip locked
  ), seen as (
    update ${replicas} r set seen_at = clock_timestamp() from ahead where r.id = ahead.id
  ), due as (
    select l.connector_id, ahead.lasting from ${leases} l join ahead on l.holder = ahead.instance
    order by l.connector_id for no key update of l skip locked
  )
  update ${leases} l set ends_at = least(l.ends_at, clock_timestamp() + due.lasting)
  from due where l.connector_id = due.connector_id`;

/**
 * Removes replicas that were not seen for 10 leases, or a minute, and returns each as `ReplicaJson`. Of two callers, one
 * gets each of them.
 */
export function forgetLostSql(): SQL {
  const patience = sql`make_interval(secs => greatest(60, r.lease_ms * 10 / 1000.0))`;
  return sql`
      with lost as (
        delete from ${replicas} r where r.seen_at < clock_timestamp() - ${patience} and not exists (
          select from ${leases} l where l.holder = r.instance and l.ends_at > clock_timestamp()
        ) returning r.*
      )
      select ${replicaJson(sql`clock_timestamp()`, { held: sql`0`, active: sql`0` })}::text as replica
      from lost r order by r.id`;
}

/** A replica that has been seen within its lease. */
export const liveReplicaSql = sql`select id from ${replicas}
  where seen_at + make_interval(secs => lease_ms / 1000.0) > clock_timestamp() limit 1`;

/** Of a replica `r`. */
function replicaJson(now: SQL, { held, active }: { readonly held: SQL; readonly active: SQL }): SQL {
  return sql`json_build_object('id', r.id, 'instance', r.instance, 'host', r.host, 'version', r.version,
    'weight', r.weight, 'startedMs', ${epochMs(sql`r.started_at`)}, 'seenMs', ${epochMs(sql`r.seen_at`)},
    'isAlive', r.seen_at + make_interval(secs => r.lease_ms / 1000.0) > ${now},
    'held', coalesce(${held}, 0), 'active', coalesce(${active}, 0), 'trouble', r.trouble)`;
}

function msOf(interval: SQL): SQL {
  return sql`greatest(0, extract(epoch from ${interval}) * 1000)::float8`;
}

function epochMs(instant: SQL): SQL {
  return sql`(extract(epoch from ${instant}) * 1000)::float8`;
}
