// The tables at the source that a connector does not take, and why: people who miss a table are to find the reason.

import type { Client } from "pg";
import type { ExcludedTable } from "../../source.ts";
import { isBookkeeping } from "../shapes/table-shapes.ts";
import type { TableSelection } from "./table-selection.ts";

interface TableRow {
  readonly id: number;
  readonly schema: string;
  readonly name: string;
  readonly is_partitioned: boolean;
  readonly is_partition: boolean;
  readonly is_foreign: boolean;
  readonly is_unlogged: boolean;
}

const tablesQuery = `
select c.oid as id, n.nspname as schema, c.relname as name, c.relkind = 'p' as is_partitioned, c.relispartition as is_partition,
  c.relkind = 'f' as is_foreign, c.relpersistence = 'u' as is_unlogged
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'f') and c.relpersistence <> 't' and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
  and not ${isBookkeeping}`;

interface Exclusion {
  readonly selection: Pick<TableSelection, "includesTable">;
  readonly partitionsAsRoot: boolean;
  /** The user's publication; null: there is none. */
  readonly publication: string | null;
}

export class ExcludedTables {
  /** As they were read last. */
  tables: readonly ExcludedTable[] = [];

  constructor(private readonly exclusion: Exclusion) {}

  /** `taken`: the tables that the connector takes. `unpublishable`: OIDs of tables that its role may not publish. */
  async read(
    client: Client,
    taken: readonly { readonly relation: { readonly id: number } }[],
    unpublishable: readonly number[] = [],
  ): Promise<void> {
    const { rows } = await client.query<TableRow>(tablesQuery);
    const ids = new Set(taken.map(({ relation }) => relation.id));
    this.tables = rows.flatMap((row) => {
      const reason = ids.has(row.id) ? null : reasonOf(row, this.exclusion, unpublishable);
      return reason === null ? [] : [{ id: row.id, schema: row.schema, name: row.name, reason }];
    });
  }
}

/** Null: it is a part of another table, or has come since the tables were read. */
function reasonOf(
  table: TableRow,
  { selection, partitionsAsRoot, publication }: Exclusion,
  unpublishable: readonly number[],
): string | null {
  if (partitionsAsRoot && table.is_partition) return null;
  if (!selection.includesTable(table.schema, table.name))
    return "The connector's catalog does not select it.";
  if (table.is_foreign) return "It is a foreign table: its rows are on another server.";
  if (table.is_unlogged)
    return "It is unlogged: Postgres does not log its changes. ALTER TABLE … SET LOGGED changes that.";
  if (table.is_partitioned && !partitionsAsRoot)
    return "It has no rows of its own: its partitions are tables of their own, as partitions_as_root is false.";
  if (unpublishable.includes(table.id)) return "The connector's role may not publish it.";
  return publication === null ? null : `Publication ${publication} does not contain it.`;
}
