// Finds in the catalog what logical decoding does not tell of a table's change: values that rows got without an event. Pure.
// https://www.postgresql.org/docs/current/logical-replication-restrictions.html

import { qualifiedName, type Relation } from "../../change/relation.ts";

/** A column as the catalog numbers it: its number stays when it is renamed, and is never given to another. */
export interface ColumnFacts {
  readonly number: number;
  readonly name: string;
  /** Changes whenever the column's entry in the catalog is written: it was given another type, name or default. */
  readonly version: string;
  /** It was added with one default for all rows that were there, which the catalog remembers. */
  readonly hasAddedValue: boolean;
}

/** What is remembered of a table to notice the change. */
export interface RememberedTable {
  readonly columns: readonly RememberedColumn[];
  readonly storage: string;
}

export interface RememberedColumn extends ColumnFacts {
  /** What it was called before, the latest last. */
  readonly formerNames: readonly string[];
  readonly isDropped?: true;
}

const rememberedNames = 5;
const rememberedDropped = 50;

/** What is to be remembered, with the names that columns had before. */
export function remember(
  before: RememberedTable | null,
  columns: readonly ColumnFacts[],
  storage: string,
): RememberedTable {
  const known = new Map(before?.columns.map((column) => [column.number, column]));
  const present = new Set(columns.map(({ number }) => number));
  const dropped = before?.columns.filter(({ number }) => !present.has(number)) ?? [];
  return {
    storage,
    columns: [
      ...columns.map((column) => {
        const old = known.get(column.number);
        const names = old && old.name !== column.name ? [...old.formerNames, old.name] : old?.formerNames;
        return { ...column, formerNames: names?.slice(-rememberedNames) ?? [] };
      }),
      ...dropped.slice(-rememberedDropped).map((column) => ({ ...column, isDropped: true as const })),
    ],
  };
}

/**
 * Why rows that were there may differ at a sink by now; null: they do not. A sink that `followsShapes` renames columns and
 * adds them with their value by itself.
 *
 * A column's entry and the table's files that both changed tell a rewrite, since neither a rewrite of the table alone (VACUUM
 * FULL, TRUNCATE) nor a change of the entry alone (a default, a longer varchar) touches a value. Both by chance is possible;
 * a warning too many is better than one too few.
 */
export function silentChange(
  before: RememberedTable,
  after: RememberedTable,
  followsShapes: boolean,
): string | null {
  const known = new Map(before.columns.map((column) => [column.number, column]));
  const isRewritten = before.storage !== after.storage;
  const reasons = after.columns.flatMap((column) => {
    if (column.isDropped) return [];
    const old = known.get(column.number);
    if (!old) {
      if (column.hasAddedValue)
        return followsShapes ? [] : [`column ${column.name} was added with a default`];
      return isRewritten ? [`column ${column.name} was added with a value of its own in each row`] : [];
    }
    if (old.version === column.version) return [];
    if (isRewritten) return [`column ${column.name} was rewritten`];
    return old.name === column.name || followsShapes
      ? []
      : [`column ${old.name} was renamed to ${column.name}`];
  });
  return reasons.length > 0 ? reasons.join(", ") : null;
}

/** What to tell people, with what mends it. */
export function silentChangeWarning(relation: Relation, change: string): string {
  const { schema, name } = relation;
  return (
    `Table ${qualifiedName(relation)}: ${change}, which no change event tells. Rows that were there before may differ at ` +
    `the sink. Create a Snapshot task to mend it: POST …/tasks ` +
    JSON.stringify({ Snapshot: { schema, name } })
  );
}
