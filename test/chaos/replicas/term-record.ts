// A record, kept by the Postgres sink's own server, of which term moved which checkpoint. A trigger writes it in the transaction that moves the
// checkpoint, with that row locked: so the record has the order of the commits, and nothing of what was rolled back.

import type { PostgresServer } from "../../../src/demo/postgres-server.ts";

/** The session's name ends with the term that it works under. `always`: also where the session applies as a replica. */
const recordSql = `
create schema chaos;
create table chaos.moves (seq bigint generated always as identity primary key, connector_id text, term bigint, lsn pg_lsn, session text,
  at timestamptz not null default clock_timestamp());
create function chaos.note_checkpoint() returns trigger language plpgsql as $$ begin
  insert into chaos.moves (connector_id, term, lsn, session)
  values (new.connector_id, substring(current_setting('application_name') from ' t(\\d+)$')::bigint, new.resume_lsn, current_setting('application_name'));
  return null;
end $$;
create function chaos.note_term() returns trigger language plpgsql as $$ begin
  insert into chaos.moves (connector_id, term, session) values (new.connector_id, new.term, 'run_term');
  return null;
end $$;
create trigger note after insert or update on millrace.checkpoint for each row execute function chaos.note_checkpoint();
create trigger note after insert or update on millrace.run_term for each row execute function chaos.note_term();
alter table millrace.checkpoint enable always trigger note;
alter table millrace.run_term enable always trigger note`;

/** Terms and checkpoints that went back, and moves that no term is known of. */
const brokenSql = `
select m.seq::text, m.connector_id, m.term::text, m.before::text, m.lsn::text, m.lsn_before::text, m.session, m.at::text from (
  select seq, connector_id, term, lsn, session, at, max(term) over earlier as before, max(lsn) over earlier as lsn_before
  from chaos.moves window earlier as (partition by connector_id order by seq rows between unbounded preceding and 1 preceding)) m
where m.term is null or m.term < m.before or m.lsn < m.lsn_before order by m.seq limit 10`;

/** What is needed of the past is the last of it. */
const trimSql = `
delete from chaos.moves where seq not in (select max(seq) from chaos.moves where lsn is not null group by connector_id union
  select max(seq) from chaos.moves group by connector_id)`;

export class TermRecord {
  /** Checkpoints that were moved so far. */
  moves = 0;
  /** Of these, moved by a term when the next one had been given out, and not begun at the sink. */
  late = 0;
  /** By connector: counted up to here. */
  readonly #counted = new Map<string, number>();

  private constructor(
    private readonly sink: PostgresServer,
    private readonly state: PostgresServer,
    /** By connector. */
    private readonly databases: ReadonlyMap<string, string>,
  ) {}

  /** The connectors have their tables at the sink. */
  static async begin(
    sink: PostgresServer,
    state: PostgresServer,
    databases: ReadonlyMap<string, string>,
  ): Promise<TermRecord> {
    for (const database of databases.values()) await sink.query(recordSql, database);
    return new TermRecord(sink, state, databases);
  }

  /** The moment, by the wall clock, of the first move by a term above this one; null: none yet. */
  async firstMoveAbove(connectorId: string, term: number): Promise<number | null> {
    const database = this.databases.get(connectorId);
    if (database === undefined) throw new Error(`${connectorId} has no checkpoint at the Postgres sink`);
    const [first] = await this.sink.query<{ ms: string | null }>(
      `select extract(epoch from min(at)) * 1000 as ms from chaos.moves where connector_id = '${connectorId}' and term > ${term} and lsn is not null`,
      database,
    );
    return first?.ms == null ? null : Number(first.ms);
  }

  /** Throws what went back. Then begins anew behind the last move. */
  async expectInOrder(): Promise<void> {
    for (const [connectorId, database] of this.databases) {
      const broken = await this.sink.query(brokenSql, database);
      if (broken.length > 0)
        throw new Error(`terms or checkpoints of ${connectorId} went back: ${JSON.stringify(broken)}`);
      await this.#count(connectorId, database);
      await this.sink.query(trimSql, database);
    }
  }

  /** Throws where a checkpoint was moved by a term that the state has not given out by then. */
  async #count(connectorId: string, database: string): Promise<void> {
    const terms = await this.state.query<{ term: string; ms: string; replica_id: string }>(
      `select term::text, extract(epoch from taken_at) * 1000 as ms, replica_id from millrace.lease_terms where connector_id = '${connectorId}'`,
    );
    const takenAt = new Map(terms.map(({ term, ms }) => [Number(term), Number(ms)]));
    const moves = await this.sink.query<{ seq: string; term: string; ms: string }>(
      "select seq::text, term::text, extract(epoch from at) * 1000 as ms from chaos.moves " +
        `where lsn is not null and seq > ${this.#counted.get(connectorId) ?? 0} order by moves.seq`,
      database,
    );
    for (const { seq, term, ms } of moves) {
      this.#counted.set(connectorId, Number(seq));
      const taken = takenAt.get(Number(term));
      if (taken === undefined || taken > Number(ms) + 1)
        throw new Error(`${connectorId} moved under term ${term}, which was taken at ${taken}, at ${ms}`);
      const next = takenAt.get(Number(term) + 1);
      if (next !== undefined && Number(ms) > next) this.late++;
    }
    this.moves += moves.length;
  }
}
