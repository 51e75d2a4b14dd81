// What a copy in ranges is a copy of: ranges that were copied count only while this stays. Pure.

import { copyMark } from "./copy-mark.ts";
import type { Column, TableShape } from "./relation.ts";

/** The same table, with the same columns, in the same files. */
export function dividedMark(table: TableShape): string {
  const { relation, primaryKey, notNull, storage } = table;
  const { schema, name, keyId, replicaIdentity } = relation;
  const columns = relation.columns.map(({ name, number, typeName, typeDefinitions }: Column) => [
    name,
    number,
    typeName,
    typeDefinitions ?? null,
  ]);
  return JSON.stringify([
    copyMark(table),
    storage,
    [schema, name, keyId, replicaIdentity],
    columns,
    primaryKey,
    notNull,
  ]);
}
