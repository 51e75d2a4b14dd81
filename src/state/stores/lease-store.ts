// Which replicas there are, and which of them may run which connector. All times are those of the state's server: a
// replica compares no clock of its own with them. What one replica does is one statement, and locks its own row first and
// then leases in the order of connectors. So two of them wait for each other and never for ever.

import { asc, eq, type SQL, sql } from "drizzle-orm";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, rowsOf, stored } from "../database.ts";
import { laterVersion, oldestCompatibleSql } from "../migrations.ts";
import { leases, leaseTerms, replicas } from "../replica-tables.ts";
import { forgetLostSql, type ReplicaJson, setBackSql, type ViewRow, viewSql } from "./installation-view.ts";

/** How many terms of a connector are kept. */
export const termBound = 100;

/** What was taken or renewed: terms by connector id. */
export type Terms = ReadonlyMap<string, number>;

export interface ReplicaSelf {
  readonly id: string;
  /** UUID of one life of the process. */
  readonly instance: string;
  readonly host: string;
  readonly version: string;
  readonly weight: number;
  readonly leaseMs: number;
  readonly startedAt: Date;
}

export interface ReplicaView {
  readonly id: string;
  readonly instance: string;
  readonly host: string;
  readonly version: string;
  readonly weight: number;
  readonly startedAt: Date;
  readonly seenAt: Date;
  /** It has renewed within its lease. */
  readonly isAlive: boolean;
  /** Leases in force. */
  readonly held: number;
  /** Those of connectors that are to run. */
  readonly active: number;
  readonly trouble: string | null;
}

export interface FreeLease {
  readonly connectorId: string;
  readonly active: boolean;
  /** For how long nobody has held it. */
  readonly freeMs: number;
}

export interface InstallationView {
  /** By id. */
  readonly replicas: readonly ReplicaView[];
  /** By connector. */
  readonly free: readonly FreeLease[];
  /** When the next lease of another replica ends, if it is not renewed; null: none. */
  readonly nextEndMs: number | null;
}

export interface LeaseStoreContext {
  readonly database: Database;
  /** The same database, for what may wait, and comes once for each connector. */
  readonly patient: Database;
  /** The newest migration that this build knows. */
  readonly latestMigration: number;
  /** A later build has changed the tables so that this one cannot work on them. */
  outdated(error: MillraceError): void;
}

/** A lease as JSON: the connector and its term. */
type TermPair = readonly [connectorId: string, term: number];

export class LeaseStore {
  readonly #database: Database;

  constructor(private readonly context: LeaseStoreContext) {
    this.#database = context.database;
  }

  /** Throws `invalid_setting` while another live instance has this id. A dead one's row and leases become free. */
  async join(self: ReplicaSelf): Promise<void> {
    const others = sql`select from ${leases} l where l.holder = r.instance and l.ends_at > clock_timestamp()`;
    const isDead = sql`r.seen_at + ${lasting(sql`r.lease_ms`)} <= clock_timestamp() and not exists (${others})`;
    const rows = await this.#rows<{ id: string }>(sql`
      insert into ${replicas} as r ${valuesOf(self, null)}
      on conflict (id) do update set ${allOf(replicaColumns)} where r.instance = excluded.instance or (${isDead})
      returning r.id`);
    if (rows.length > 0) return;
    await this.#rows(setBackSql);
    throw idTaken(self.id);
  }

  /**
   * Renews this replica and its leases, also those that have ended while nobody else took them. Returns those that it holds. Throws
   * `invalid_setting` when another instance has taken over its id, or the tables are those of a later build that this one cannot use.
   */
  async renew(self: ReplicaSelf, trouble: string | null): Promise<Terms> {
    const rows = await this.#rows<{ known: boolean; oldest: string | null; held: string }>(sql`
      with me as (
        insert into ${replicas} as r ${valuesOf(self, trouble)}
        on conflict (id) do update set seen_at = excluded.seen_at, trouble = excluded.trouble
        where r.instance = excluded.instance returning r.instance
      ), due as (
        select l.connector_id from ${leases} l join me on l.holder = me.instance
        order by l.connector_id for no key update of l
      ), renewed as (
        update ${leases} l set ends_at = clock_timestamp() + ${lasting(self.leaseMs)} from due
        where l.connector_id = due.connector_id returning l.connector_id, l.term
      )
      select exists (select from me) as known, (${oldestCompatibleSql}) as oldest,
        (select coalesce(json_agg(json_build_array(connector_id, term)), '[]')::text from renewed) as held`);
    const { known, oldest, held } = rows[0] ?? { known: false, oldest: null, held: "[]" };
    if (Number(oldest) > this.context.latestMigration) throw this.#outdated();
    if (!known) throw idTaken(self.id);
    return new Map(JSON.parse(held) as TermPair[]);
  }

  /** What there is, as of one moment. */
  async view(self: ReplicaSelf): Promise<InstallationView> {
    let [row] = await this.#rows<ViewRow>(viewSql(self.instance));
    if (row?.ahead) {
      await this.#rows(setBackSql);
      [row] = await this.#rows<ViewRow>(viewSql(self.instance));
    }
    return {
      replicas: (JSON.parse(row?.replicas ?? "[]") as ReplicaJson[]).map(readReplica),
      free: JSON.parse(row?.free ?? "[]") as FreeLease[],
      nextEndMs: row?.next ?? null,
    };
  }

  /**
   * Takes those that are free or have ended, each under its next term. Where somebody still writes under the last one, the lease is left
   * for another time: to wait for it would hold up the renewals of this replica.
   */
  async take(self: ReplicaSelf, connectorIds: readonly string[]): Promise<Terms> {
    const wanted = sql`select json_array_elements_text(${JSON.stringify(connectorIds)}::json)`;
    const rows = await this.#rows<{ id: string; term: number }>(sql`
      with me as (
        update ${replicas} set seen_at = clock_timestamp()
        where id = ${self.id} and instance = ${self.instance}::uuid returning instance
      ), due as (
        select l.connector_id from ${leases} l cross join me
        where l.connector_id in (${wanted}) and (l.holder is null or l.ends_at <= clock_timestamp())
        order by l.connector_id for update of l skip locked
      ), taken as (
        update ${leases} l set term = l.term + 1, holder = ${self.instance}::uuid,
          ends_at = clock_timestamp() + ${lasting(self.leaseMs)}
        from due where l.connector_id = due.connector_id returning l.connector_id, l.term
      ), logged as (
        insert into ${leaseTerms} (connector_id, term, replica_id, taken_at)
        select connector_id, term, ${self.id}, clock_timestamp() from taken
      ), pruned as (
        delete from ${leaseTerms} old using taken
        where old.connector_id = taken.connector_id and old.term <= taken.term - ${termBound}::int
      )
      select connector_id as id, term::float8 as term from taken`);
    return new Map(rows.map(({ id, term }) => [id, term]));
  }

  /** Gives back, where this replica holds it under this term. */
  async release(self: ReplicaSelf, terms: Terms): Promise<void> {
    const given = sql`json_array_elements(${JSON.stringify([...terms])}::json) as given`;
    const statement = sql`
      with due as (
        select l.connector_id from ${leases} l
        join ${given} on l.connector_id = given ->> 0 and l.term = (given ->> 1)::bigint
        where l.holder = ${self.instance}::uuid order by l.connector_id for no key update of l
      ) ${freeSql}`;
    await stored(rowsOf(this.context.patient, statement));
  }

  /** Whether the connector is to run: what its holder says under its term. */
  async setActive(connectorId: string, term: number, active: boolean): Promise<void> {
    const update = sql`
      update ${leases} set active = ${active}
      where connector_id = ${connectorId} and term = ${term}::bigint and active <> ${active}`;
    await stored(rowsOf(this.context.patient, update));
  }

  /**
   * Forgets replicas that were not seen for 10 leases (at least a minute); returns those that this call removed. Their
   * leases have ended long before.
   */
  async forgetLost(): Promise<readonly ReplicaView[]> {
    const rows = await this.#rows<{ replica: string }>(forgetLostSql());
    return rows.map(({ replica }) => readReplica(JSON.parse(replica) as ReplicaJson));
  }

  /** Gives everything back, and forgets this replica. */
  async leave(self: ReplicaSelf): Promise<void> {
    await this.#rows(sql`
      with me as (
        delete from ${replicas} where id = ${self.id} and instance = ${self.instance}::uuid returning instance
      ), due as (
        select l.connector_id from ${leases} l join me on l.holder = me.instance
        order by l.connector_id for no key update of l
      ) ${freeSql}`);
  }

  /** The log of terms, oldest first. */
  async terms(
    connectorId: string,
  ): Promise<readonly { readonly term: number; readonly replicaId: string; readonly takenAt: Date }[]> {
    const { term, replicaId, takenAt } = leaseTerms;
    const log = this.#database.select({ term, replicaId, takenAt }).from(leaseTerms);
    return stored(log.where(eq(leaseTerms.connectorId, connectorId)).orderBy(asc(term)).execute());
  }

  #rows<Row>(statement: SQL): Promise<readonly Row[]> {
    return stored(rowsOf<Row>(this.#database, statement));
  }

  #outdated(): MillraceError {
    const error = laterVersion();
    this.context.outdated(error);
    return error;
  }
}

function readReplica({ startedMs, seenMs, ...replica }: ReplicaJson): ReplicaView {
  return { ...replica, startedAt: new Date(startedMs), seenAt: new Date(seenMs) };
}

/** Makes the leases that `due` has locked free. */
const freeSql = sql`update ${leases} l set holder = null, ends_at = least(l.ends_at, clock_timestamp())
  from due where l.connector_id = due.connector_id`;

const replicaColumns = [
  ...["instance", "host", "version", "weight", "lease_ms", "started_at"],
  ...["seen_at", "trouble"],
];

function valuesOf(self: ReplicaSelf, trouble: string | null): SQL {
  const { id, instance, host, version, weight, leaseMs, startedAt } = self;
  return sql`(id, ${sql.raw(replicaColumns.join(", "))}) values (${id}, ${instance}::uuid, ${host}, ${version},
    ${weight}::int, ${leaseMs}::int, ${startedAt.toISOString()}::timestamptz, clock_timestamp(), ${trouble})`;
}

function allOf(columns: readonly string[]): SQL {
  return sql.raw(columns.map((column) => `${column} = excluded.${column}`).join(", "));
}

function lasting(ms: number | SQL): SQL {
  return sql`make_interval(secs => ${ms}::float8 / 1000)`;
}

function idTaken(id: string): MillraceError {
  return new MillraceError(
    "invalid_setting",
    `Another replica has the id ${id}, and has been seen within its lease. Give this one another MILLRACE_REPLICA_ID, or stop that one.`,
  );
}
