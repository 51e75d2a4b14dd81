// Decides how the key that millrace has made at a target changes with the source's key. A key that somebody else has made stays. Pure;
// migration-sql.ts writes the SQL.

import { isIdentified, keyNames, type Relation } from "../../../../change/relation.ts";
import type { TargetTable, UniqueKey } from "../target-table.ts";

export type DropKey = { readonly kind: "drop key"; readonly name: string; readonly isPrimary: boolean };
export type AddKey = {
  readonly kind: "add key";
  readonly key: readonly string[];
  readonly isPrimary: boolean;
};

/**
 * What the sink records of a table's key: the numbers of the columns that identify a row at the source, followed by the number of the source's
 * primary key as a negative value. Empty: nothing identifies a row.
 */
export function keyNumbers({ columns, key, keyId }: Relation): readonly number[] {
  const numbers = key.map((i) => columns[i]!.number).sort((a, b) => a - b);
  return numbers.length > 0 && keyId !== undefined ? [...numbers, -keyId] : numbers;
}

/**
 * `known`: the key that the target follows; null: not known. `nameOf`: the future name of a column; null: it will be dropped. The old key is
 * dropped before the columns change, and the new one is added after that.
 */
export function planKey(
  table: TargetTable,
  known: readonly number[] | null,
  relation: Relation,
  nameOf: (column: string) => string | null,
): { readonly drop: DropKey | null; readonly add: AddKey | null } {
  const none = { drop: null, add: null };
  const own = table.uniqueKeys.find(({ isOurs }) => isOurs);
  const isSame = known?.join() === keyNumbers(relation).join();
  const hadNone = known?.length === 0;
  // Where ours is there and the key is the same, somebody may have renamed a column of it.
  if (!own && (isSame || !hadNone)) return none;
  const wanted = wantedKey(relation);
  const isWanted = ({ columns, isOfOverlaps }: UniqueKey) =>
    !isOfOverlaps &&
    isSameSet(
      columns.map(({ column }) => nameOf(column)),
      wanted,
    );
  if (own && isWanted(own)) return none;
  const others = table.uniqueKeys.filter((key) => key !== own);
  const isAdded = wanted.length > 0 && !others.some(isWanted);
  const isPrimary = relation.replicaIdentity !== "index" && !others.some((key) => key.isPrimary);
  return {
    drop: own ? { kind: "drop key", name: own.name, isPrimary: own.isPrimary } : null,
    add: isAdded ? { kind: "add key", key: wanted, isPrimary } : null,
  };
}

/** A table that carries only inserts gets no key: a key may come again after its row was deleted at the source. */
function wantedKey(relation: Relation): readonly string[] {
  const isKeyed = isIdentified(relation) || relation.isKeyedByHash === true;
  return isKeyed ? keyNames(relation) : [];
}

function isSameSet(names: readonly (string | null)[], others: readonly string[]): boolean {
  return names.length === others.length && names.every((name) => name !== null && others.includes(name));
}

/** `added`, with its columns in the order of the source's primary key, if it is that key. */
export function inOrder(added: AddKey, primaryKey: readonly string[]): AddKey {
  const isSame =
    primaryKey.length === added.key.length && primaryKey.every((name) => added.key.includes(name));
  return isSame ? { ...added, key: primaryKey } : added;
}
