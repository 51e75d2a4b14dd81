// Finds in the catalog what logical decoding does not tell of a table's change: values that rows got without an event. Pure.
// https://www.postgresql.org/docs/current/logical-replication-restrictions.html

import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { partChange, type RememberedParts, rememberParts, type TypeParts } from "../catalog/type-parts.ts";

/** A column as the catalog numbers it: its number stays when it is renamed, and is never given to another. */
export interface ColumnFacts {
  readonly number: number;
  readonly name: string;
  /** Changes whenever the column's entry in the catalog is written: it was given another type, name or default. */
  readonly version: string;
  /** It was added with one default for all rows that were there, which the catalog remembers. */
  readonly hasAddedValue: boolean;
  /** The partitions do not agree on it: the sink is not told which. */
  readonly isValueUnclear?: true;
  /** Absent: the type is built in. */
  readonly parts?: TypeParts;
  /** The column's type, where a hash of its text travels, or is in the row's; absent: the values themselves do. */
  readonly hashedType?: number;
}

/** What is remembered of a table to notice the change. */
export interface RememberedTable {
  readonly columns: readonly RememberedColumn[];
  readonly storage: string;
  /** The highest number of a column, also of one that does not travel. */
  readonly highest?: number;
}

export interface RememberedColumn extends ColumnFacts, RememberedParts {
  /** What it was called before, the latest last. */
  readonly formerNames: readonly string[];
  /** Where the log ended when it was seen first: what is committed behind that knows it. Null: it was not seen alive. */
  readonly seenAt: string | null;
  /** Where the log ended when it was seen first in this version. */
  readonly steadyAt?: string;
  /** It was dropped, or is left out since. */
  readonly isDropped?: true;
  /** Where the log ended when it was first seen to be dropped: what is committed behind that does not have it. */
  readonly goneAt?: string;
}

/** A table as one look at the catalog found it. */
export interface SeenTable {
  readonly facts: readonly ColumnFacts[];
  /** Numbers of columns that were dropped. */
  readonly dropped: readonly number[];
  readonly relation: Pick<Relation, "withheld">;
  readonly storage: string;
}

const rememberedNames = 5;

/** What is to be remembered, with the names that columns had before. `at`: where the log ended behind the look. */
export function remember(before: RememberedTable | null, seen: SeenTable, at: Lsn): RememberedTable {
  const known = new Map(before?.columns.map((column) => [column.number, column]));
  const present = new Set(seen.facts.map(({ number }) => number));
  const dropped = new Set(seen.dropped);
  const absent = before?.columns.filter(({ number }) => !present.has(number) && !dropped.has(number)) ?? [];
  return {
    storage: seen.storage,
    highest: Math.max(0, ...present, ...dropped, ...seen.relation.withheld),
    columns: [
      ...seen.facts.map((column) => rememberedColumn(column, known.get(column.number), at)),
      ...absent.map((column) => ({ ...column, isDropped: true as const })),
      ...seen.dropped.map((number) => droppedColumn(number, known.get(number), at)),
    ],
  };
}

function rememberedColumn(column: ColumnFacts, old: RememberedColumn | undefined, at: Lsn): RememberedColumn {
  const names = old && old.name !== column.name ? [...old.formerNames, old.name] : old?.formerNames;
  const formerNames = names?.slice(-rememberedNames) ?? [];
  const steadyAt = (old?.version === column.version ? old.steadyAt : undefined) ?? formatLsn(at);
  const parts = column.parts ? rememberParts(old, column.parts) : {};
  return { ...column, ...parts, formerNames, seenAt: old?.seenAt ?? formatLsn(at), steadyAt };
}

function droppedColumn(number: number, old: RememberedColumn | undefined, at: Lsn): RememberedColumn {
  const unseen = { number, name: "", version: "", hasAddedValue: false, formerNames: [], seenAt: null };
  return { ...(old ?? unseen), isDropped: true, goneAt: old?.goneAt ?? formatLsn(at) };
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
    if (!old && column.number <= (before.highest ?? 0))
      return [`column ${column.name} did not travel before`];
    if (!old) {
      if (column.hasAddedValue)
        return followsShapes && !column.isValueUnclear
          ? []
          : [`column ${column.name} was added with a default`];
      return isRewritten ? [`column ${column.name} was added with a value of its own in each row`] : [];
    }
    if (isRewritten && old.version !== column.version) return [`column ${column.name} was rewritten`];
    if (old.hashedType !== column.hashedType) return [`column ${column.name} has other hashes`];
    const change = partChange(old, column, followsShapes && column.hashedType === undefined);
    if (change !== null) return [`the type of column ${column.name} ${change}`];
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
