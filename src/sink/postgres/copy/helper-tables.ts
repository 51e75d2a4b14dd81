// The tables that a copy makes for itself in schema millrace. Their names come from the connector and the table, so that the next run finds
// them.

import { type Client, escapeIdentifier } from "pg";
import { keyNames, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import type { TargetName } from "../schema/target-name.ts";
import type { TargetTable } from "../schema/target-table.ts";

export interface HelperTables {
  /** Rows of a blocking copy's ranges. When all are there, it is renamed to be the target. */
  readonly side: TargetName;
  /** Keys that the stream has touched, as `k0`, `k1`, … `is_partial`: it brought only some columns. */
  readonly touched: TargetName;
  /** Keys that chunks have brought, in `replace` mode: rows with other keys are deleted at the end. */
  readonly seen: TargetName;
  /** Empty, with the columns of the target: chunks' tables are made like it. A look at the target would lock it for as long as a chunk takes. */
  readonly model: TargetName;
}

const named = (name: string): TargetName => ({ schema: "millrace", name });

export function helperTables(connectorId: string, tableId: number): HelperTables {
  const of = (kind: string) => named(`${kind}_${connectorId}_${tableId}`);
  return { side: of("copy"), touched: of("touched"), seen: of("seen"), model: of("model") };
}

/** The staging table of one chunk. Each chunk of a copy has another `number`. */
export function chunkTable(connectorId: string, tableId: number, number: number): TargetName {
  return named(`chunk_${connectorId}_${tableId}_${number}`);
}

/** A name has the connector's id, and behind it one number, or two: so none is of another connector. */
const one = /^(\d+)$/;
const idOfTable = { copy: one, touched: one, seen: one, model: one, chunk: /^(\d+)_\d+$/ } as const;

interface MadeTable {
  /** The OID of the source's table. */
  readonly tableId: number;
  readonly name: TargetName;
}

/** The tables that copies of the connector have made, and that are still there, recorded or not. */
export async function madeTables(client: Client, connectorId: string): Promise<readonly MadeTable[]> {
  const { rows } = await client.query<{ name: string }>(
    "select relname as name from pg_class where relnamespace = 'millrace'::regnamespace and relkind = 'r'",
  );
  return rows.flatMap(({ name }) =>
    Object.entries(idOfTable).flatMap(([kind, expression]) => {
      const prefix = `${kind}_${connectorId}_`;
      const [, id] = (name.startsWith(prefix) && expression.exec(name.slice(prefix.length))) || [];
      return id ? [{ tableId: Number(id), name: named(name) }] : [];
    }),
  );
}

/** In the open transaction. All are logged: a crash must not lose keys whose changes it keeps. */
export async function createKeyTables(
  client: Client,
  { touched, seen, model }: HelperTables,
  target: TargetTable,
  relation: Relation,
  recordsSeen: boolean,
): Promise<void> {
  const names = keyNames(relation);
  const keys = names.map((name, i) => `${escapeIdentifier(name)} as k${i}`).join(", ");
  const primary = names.map((_, i) => `k${i}`).join(", ");
  const create = async (table: TargetName, columns: string) => {
    const selected = `select ${columns} from ${sqlName(target.target)} with no data`;
    await client.query(`create table ${sqlName(table)} as ${selected}`);
  };
  const addKey = (table: TargetName) =>
    client.query(`alter table ${sqlName(table)} add primary key (${primary})`);
  await create(model, "*");
  await create(touched, `${keys}, false as is_partial`);
  await addKey(touched);
  if (!recordsSeen) return;
  await create(seen, keys);
  await addKey(seen);
}
