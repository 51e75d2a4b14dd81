// What the holders of connectors report of their runs, so that other replicas can show it. The text is theirs.

import { sql } from "drizzle-orm";
import { type Database, rowsOf, stored } from "../database.ts";
import { leases, runReports } from "../replica-tables.ts";

export interface StoredReport {
  readonly connectorId: string;
  readonly holder: string;
  readonly version: number;
  readonly body: string;
}

export interface NewReport {
  readonly connectorId: string;
  readonly term: number;
  readonly kind: "status" | "tables";
  /** Rises with each statement of this holder. */
  readonly version: number;
  readonly body: string;
}

export class ReportStore {
  constructor(private readonly database: Database) {}

  /**
   * One statement; a report under an older term is dropped. It locks no lease: a report that a take-over overtakes is
   * not shown, because its term is not the lease's.
   */
  async save(holder: string, reports: readonly NewReport[]): Promise<void> {
    const given = reports.map(({ connectorId, ...report }) => ({ connector_id: connectorId, ...report }));
    const statement = sql`
      insert into ${runReports} as old (connector_id, kind, term, holder, version, body)
      select g.connector_id, g.kind, g.term, ${holder}::uuid, g.version, g.body
      from json_to_recordset(${JSON.stringify(given)}::json)
        as g (connector_id text, kind text, term bigint, version bigint, body text)
      join ${leases} l on l.connector_id = g.connector_id and l.term = g.term
      order by g.connector_id, g.kind
      on conflict (connector_id, kind) do update
        set term = excluded.term, holder = excluded.holder, version = excluded.version, body = excluded.body
        where old.term <= excluded.term`;
    await stored(rowsOf(this.database, statement));
  }

  /** Status reports of other holders, each under the present term, above the versions seen of each holder. */
  async since(self: string, seen: ReadonlyMap<string, number>): Promise<readonly StoredReport[]> {
    const versions = JSON.stringify(Object.fromEntries(seen));
    const statement = sql`
      select r.connector_id as "connectorId", r.holder::text as holder, r.version::float8 as version, r.body
      from ${runReports} r join ${leases} l on l.connector_id = r.connector_id and l.term = r.term
      where r.kind = 'status' and r.holder <> ${self}::uuid
        and r.version > coalesce((${versions}::jsonb ->> r.holder::text)::bigint, -1)
      order by r.holder, r.version`;
    return stored(rowsOf<StoredReport>(this.database, statement));
  }

  /** What the present holder, or else the last one, said of the connector's tables. */
  async tables(connectorId: string): Promise<string | null> {
    const statement = sql`
      select r.body from ${runReports} r join ${leases} l on l.connector_id = r.connector_id and l.term = r.term
      where r.connector_id = ${connectorId} and r.kind = 'tables'`;
    const rows = await stored(rowsOf<{ body: string }>(this.database, statement));
    return rows[0]?.body ?? null;
  }
}
