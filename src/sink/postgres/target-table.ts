// A table at the sink as its catalog describes it, beside the relation whose rows it takes.

import type { Client } from "pg";
import type { Relation } from "../../change/relation.ts";
import { sqlName, type TargetName } from "./target-name.ts";

export interface TargetColumn {
  readonly name: string;
  readonly typeOid: number;
  /** As `format_type` prints it with an empty search_path. */
  readonly typeName: string;
  readonly notNull: boolean;
  readonly generated: boolean;
  readonly hasDefault: boolean;
}

export interface TargetTable {
  readonly target: TargetName;
  readonly columns: readonly TargetColumn[];
  /** Column sets of the unique indexes that an equality on all of their columns can use. */
  readonly uniqueKeys: readonly (readonly string[])[];
}

const targetQuery = `
select
  (select coalesce(json_agg(json_build_object(
      'name', a.attname, 'typeOid', a.atttypid::int8, 'typeName', format_type(a.atttypid, a.atttypmod),
      'notNull', a.attnotnull, 'generated', a.attgenerated <> '', 'hasDefault', a.atthasdef or a.attidentity <> '')
      order by a.attnum), '[]')
    from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select coalesce(json_agg((select json_agg(a.attname)
      from pg_attribute a where a.attrelid = c.oid and a.attnum = any(i.indkey::int2[]))), '[]')
    from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null) as keys
from pg_class c where c.oid = to_regclass($1) and c.relkind in ('r', 'p')`;

/** Null when there is no such table. The client's search_path must be empty. */
export async function readTargetTable(client: Client, target: TargetName): Promise<TargetTable | null> {
  const { rows } = await client.query<{ columns: TargetColumn[]; keys: string[][] }>(targetQuery, [
    sqlName(target),
  ]);
  const row = rows[0];
  return row ? { target, columns: row.columns, uniqueKeys: row.keys } : null;
}

/** Whether COPY BINARY may put the source's bytes into the table: each column has the source's type, and one that travels. */
export function takesBinary(table: TargetTable, relation: Relation): boolean {
  return relation.columns.every((column) => {
    const target = table.columns.find((candidate) => candidate.name === column.name);
    if (!target || !column.binarySafe) return false;
    return column.typeOid < 16_384
      ? target.typeOid === column.typeOid
      : withoutModifier(target.typeName) === withoutModifier(column.typeName);
  });
}

/** `numeric(10,2)` and `numeric` have the same bytes. */
function withoutModifier(typeName: string): string {
  return typeName.replace(/\(.*?\)/, "");
}

/** Whether a row is found by the relation's key without reading the whole table. */
export function isKeyIndexed(table: TargetTable, relation: Relation): boolean {
  const key = relation.key.map((i) => relation.columns[i]?.name ?? "");
  return table.uniqueKeys.some((columns) => columns.every((column) => key.includes(column)));
}
