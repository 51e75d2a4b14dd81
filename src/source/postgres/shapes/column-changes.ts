// Finds what changes rows without an event, by comparing a table's catalog entries with remembered ones. Pure.
// https://www.postgresql.org/docs/current/logical-replication-restrictions.html

import { formatLsn, type Lsn } from "../../../change/lsn.ts";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { partChange, type RememberedParts, rememberParts, type TypeParts } from "../catalog/type-parts.ts";

/** A column by its catalog number, which a rename keeps and no other column gets. */
export interface ColumnFacts {
  readonly number: number;
  readonly name: string;
  /** Changes whenever the column's catalog row is written: for another type, name or default. */
  readonly version: string;
  /** It was added with a default for all existing rows, which the catalog keeps. */
  readonly hasAddedValue: boolean;
  /** New rows get a value of their own. */
  readonly hasDefault?: true;
  /** Its partitions do not agree on that default: the sink does not get it. */
  readonly isValueUnclear?: true;
  /** Absent: a built-in type. */
  readonly parts?: TypeParts;
  /**
   * The column's type, where a hash of its text is sent or is part of the row's hash; absent: its values themselves are
   * sent.
   */
  readonly hashedType?: number;
}

/** What is remembered of a table between reads. Stored as JSON. */
export interface RememberedTable {
  readonly columns: readonly RememberedColumn[];
  readonly storage: string;
  /** The highest column number, including columns that are not sent. */
  readonly highest?: number;
  /** As `SourceTable.computedAtSink`. */
  readonly computedAtSink?: readonly Pick<ColumnFacts, "number" | "name">[];
}

export interface RememberedColumn extends ColumnFacts, RememberedParts {
  /** Earlier names, oldest first. */
  readonly formerNames: readonly string[];
  /**
   * Where the log ended when the column was first read: what commits later knows it. Null: it was never read before it
   * was dropped.
   */
  readonly seenAt: string | null;
  /** Where the log ended when it was first read in this version. */
  readonly steadyAt?: string;
  /** It was dropped, or is excluded now. */
  readonly isDropped?: true;
  /** Where the log ended when the drop was first read: what commits later lacks the column. */
  readonly goneAt?: string;
}

/** A table as one read of the catalog found it. */
export interface SeenTable {
  readonly facts: readonly ColumnFacts[];
  /** Numbers of dropped columns. */
  readonly dropped: readonly number[];
  readonly relation: Pick<Relation, "withheld">;
  readonly storage: string;
  readonly computedAtSink?: readonly Pick<ColumnFacts, "number" | "name">[];
}

/** Existing rows may differ at the sink now. */
export interface SilentChange {
  readonly reason: string;
  /** A column came that the sink lacks, and rows have values in it: the table is copied again. */
  readonly isCopiedAgain: boolean;
}

const rememberedNames = 5;

/** What to remember of a table, with earlier names of its columns. `at`: where the log ended after the read. */
export function remember(before: RememberedTable | null, seen: SeenTable, at: Lsn): RememberedTable {
  const known = new Map(before?.columns.map((column) => [column.number, column]));
  const present = new Set(seen.facts.map(({ number }) => number));
  const dropped = new Set(seen.dropped);
  const absent = before?.columns.filter(({ number }) => !present.has(number) && !dropped.has(number)) ?? [];
  return {
    storage: seen.storage,
    highest: Math.max(0, ...present, ...dropped, ...seen.relation.withheld),
    ...(seen.computedAtSink ? { computedAtSink: seen.computedAtSink } : {}),
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
 * Null: existing rows do not differ at the sink. A sink that `followsShapes` renames columns itself,
 * and adds them with their default.
 *
 * A rewrite of values changes both the column's catalog row and the table's files. A rewrite of the table alone (VACUUM
 * FULL, TRUNCATE) touches no value, and neither does a change of the catalog row alone (a default, a longer varchar).
 * Both may coincide: a needless warning is better than a missing one.
 *
 * A column that was computed when it was added, and is no longer, looks like one that came with a default of its own for
 * each row, but has no default now.
 */
export function silentChange(
  before: RememberedTable,
  after: RememberedTable,
  followsShapes: boolean,
): SilentChange | null {
  const known = new Map(before.columns.map((column) => [column.number, column]));
  const files = new Set(after.storage.split(" "));
  // A partition that came new is no rewrite.
  const isRewritten = before.storage.split(" ").some((file) => !files.has(file));
  const changes = after.columns.flatMap((column): readonly SilentChange[] => {
    if (column.isDropped) return [];
    const old = known.get(column.number);
    const change = old
      ? changeOf(old, column, isRewritten, followsShapes)
      : changeByNew(column, before, isRewritten, followsShapes);
    return change === null ? [] : [change];
  });
  if (changes.length === 0) return null;
  return {
    reason: changes.map(({ reason }) => reason).join(", "),
    isCopiedAgain: changes.some((change) => change.isCopiedAgain),
  };
}

/** As `silentChange`, for a column that was not among those that travel. */
function changeByNew(
  column: RememberedColumn,
  { highest = 0, computedAtSink = [] }: RememberedTable,
  isRewritten: boolean,
  followsShapes: boolean,
): SilentChange | null {
  const { number, name } = column;
  if (number <= highest) {
    // The sink has computed it up to now under this name, and keeps what it has.
    const isAtSink = computedAtSink.some((each) => each.number === number && each.name === name);
    if (isAtSink && !isRewritten) return null;
    return { reason: `column ${name} did not travel before`, isCopiedAgain: true };
  }
  if (column.hasAddedValue) {
    return followsShapes && !column.isValueUnclear ? null : warned(`column ${name} was added with a default`);
  }
  if (!isRewritten) return null;
  const reason = `column ${name} was added with a value of its own in each row`;
  return { reason, isCopiedAgain: !column.hasDefault };
}

/** As `silentChange`, for a column that travelled before. */
function changeOf(
  old: RememberedColumn,
  column: RememberedColumn,
  isRewritten: boolean,
  followsShapes: boolean,
): SilentChange | null {
  if (isRewritten && old.version !== column.version) return warned(`column ${column.name} was rewritten`);
  if (old.hashedType !== column.hashedType) return warned(`column ${column.name} has other hashes`);
  const change = partChange(old, column, followsShapes && column.hashedType === undefined);
  if (change !== null) return warned(`the type of column ${column.name} ${change}`);
  return old.name === column.name || followsShapes
    ? null
    : warned(`column ${old.name} was renamed to ${column.name}`);
}

const warned = (reason: string): SilentChange => ({ reason, isCopiedAgain: false });

/** What changes were left out as the table had this name. */
export function leftOutAs(name: Pick<Relation, "schema" | "name">): string {
  return `${leftOut} ${qualifiedName(name)}, a name that the catalog leaves out`;
}

const leftOut = "changes were made while it was called";

/** The warning, with the task that fixes it. Among changes that were left out may be deletes. */
export function silentChangeWarning(relation: Relation, change: string): string {
  const { schema, name } = relation;
  const truncate = change.startsWith(leftOut) ? { truncate: true } : {};
  return (
    `Table ${qualifiedName(relation)}: ${change}, which no change event tells. Rows that were there before may differ at ` +
    `the sink. Create a Snapshot task to repair it: POST …/tasks ` +
    JSON.stringify({ Snapshot: { schema, name, ...truncate } })
  );
}
