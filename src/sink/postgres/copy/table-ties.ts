// The foreign keys in force that a table at the sink has, and that others have to it.

import type { Client } from "pg";
import type { TargetName } from "../schema/target-name.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";

export interface TableTies {
  /** Null: it is not there. */
  readonly target: TargetTable | null;
  /** Rows refer to others of the table. */
  readonly isOwn: boolean;
  /** Other tables that refer to it. */
  readonly referring: readonly TargetName[];
  /** It refers to other tables, or they to it. */
  readonly areOthers: boolean;
}

export async function readTies(client: Client, name: TargetName): Promise<TableTies> {
  const target = await readTargetTable(client, name);
  if (!target?.isReferred) {
    const areOthers = target !== null && target.refersTo.length > 0;
    return { target, isOwn: false, referring: [], areOthers };
  }
  const { rows } = await client.query<TargetName & { readonly isOwn: boolean }>(
    `select n.nspname as schema, c.relname as name, c.oid = $1 as "isOwn" from pg_constraint f ` +
      "join pg_class c on c.oid = f.conrelid join pg_namespace n on n.oid = c.relnamespace where f.contype = 'f' and f.confrelid = $1",
    [target.oid],
  );
  const referring = rows.filter(({ isOwn }) => !isOwn);
  const areOthers = referring.length > 0 || target.refersTo.length > 0;
  return { target, isOwn: rows.some(({ isOwn }) => isOwn), referring, areOthers };
}
