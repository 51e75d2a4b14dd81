// What a sink records of a table's copy, to tell later whether that copy still counts. It does not when another table
// took the name, when rows came or went without a change event, or when the connector now carries what the copy lacks.
// Pure.

import { type Column, copyIdentity, type TableShape } from "./relation.ts";

/** The second line of a fingerprint. The first is the copy's identity, the third the table's contents. */
type Covered = { readonly only: readonly string[] } | { readonly without: readonly string[] };

/**
 * Stays the same while a copy of `table` counts. A smaller selection of columns gives another one, which `isCopyOf`
 * accepts.
 */
export function copyFingerprint(table: TableShape): string {
  const identity = copyIdentity(table.relation);
  const covered = coveredBy(table);
  const lines = [identity, covered === null ? "" : JSON.stringify(covered), table.contents ?? ""];
  return lines.join("\n").trimEnd();
}

/**
 * Whether a copy with this fingerprint, and the changes since, hold all that the connector selects of `table`. A copy
 * of more columns counts: the sink leaves those that are no longer selected as they are.
 */
export function isCopyOf(fingerprint: string, table: TableShape): boolean {
  const [identity, covered, contents] = fingerprint.split("\n");
  if ((contents ?? "") !== (table.contents ?? "")) return false;
  if (identity !== copyIdentity(table.relation) || table.coverage?.isUnpublished === true) return false;
  if (!covered) return true;
  const copied = JSON.parse(covered) as Covered;
  return table.relation.columns.every(({ name }) =>
    "only" in copied ? copied.only.includes(name) : !copied.without.includes(name),
  );
}

/**
 * Whether a copy that began with the shape `begun` counts for `table`, the shape at its end; undefined: the table is
 * gone.
 */
export function isStillCopyOf(begun: TableShape, table: TableShape | undefined): boolean {
  return table === begun || (table !== undefined && isCopyOf(copyFingerprint(begun), table));
}

/**
 * What a copy in chunks is a copy of: the same table, with the same columns, in the same files. Chunks count only while
 * it stays the same, since a rewrite moves rows to other pages.
 */
export function chunkedCopyFingerprint(table: TableShape): string {
  const { relation, primaryKey, notNull, storage } = table;
  const { schema, name, keyId, replicaIdentity } = relation;
  const columns = relation.columns.map(({ name, number, typeName, typeDefinitions }: Column) => [
    name,
    number,
    typeName,
    typeDefinitions ?? null,
  ]);
  return JSON.stringify([
    copyFingerprint(table),
    storage,
    [schema, name, keyId, replicaIdentity],
    columns,
    primaryKey,
    notNull,
  ]);
}

/** Null: every column, also those that are added later. */
function coveredBy({ coverage, relation }: TableShape): Covered | null {
  if (coverage?.isListed) return { only: relation.columns.map(({ name }) => name) };
  return coverage && coverage.excluded.length > 0 ? { without: coverage.excluded } : null;
}
