// Plans how a target changes so that it takes a relation's rows: what the source did to its columns since the target followed them, and what
// else the rows need. Columns are identified by the source's numbers, so that a renamed one keeps its values. Pure; migration-sql.ts writes
// the SQL.

import { type Column, type Relation, rowHashColumn } from "../../../../change/relation.ts";
import type { PostgresSinkConfig } from "../../../../connector/config/sink-config.ts";
import { isReplacedType } from "../../types/replaced-type.ts";
import { type Retype, retypeOf } from "../../types/retype.ts";
import { mayHoldValuesOf } from "../../types/type-family.ts";
import type { TargetColumn, TargetTable } from "../target-table.ts";
import { type AddKey, type DropKey, planKey } from "./key-migration.ts";

/** A column that the target follows. */
export interface FollowedColumn {
  readonly number: number;
  readonly name: string;
  /** The source's type, as `Column.typeName`. */
  readonly type: string;
  /** The relation no longer has the column, but the target does: the name there still means this column. */
  readonly isKept?: true;
}

/** The shape that a target follows. */
export interface FollowedShape {
  readonly columns: readonly FollowedColumn[];
  /** As `keyNumbers` gives them; null: not known. */
  readonly key: readonly number[] | null;
}

export type TableChange = DropKey | ColumnChange | AddKey;

export type ColumnChange =
  | { readonly kind: "drop"; readonly name: string }
  | { readonly kind: "rename"; readonly from: string; readonly to: string }
  | Retype
  | { readonly kind: "add"; readonly column: Column }
  | { readonly kind: "allow null"; readonly name: string };

export type MigrationStrategy = PostgresSinkConfig["migration_strategy"];

export function followedColumns(relation: Relation): readonly FollowedColumn[] {
  return relation.columns.map(({ number, name, typeName }) => ({ number, name, type: typeName }));
}

/** The columns followed before that stay at the target beside the relation's. `names`: the target's columns now. */
export function keptColumns(
  before: readonly FollowedColumn[],
  relation: Relation,
  names: ReadonlySet<string>,
): readonly FollowedColumn[] {
  return before
    .filter(({ number, name }) => number > 0 && names.has(name))
    .filter(({ name }) => !relation.columns.some((column) => column.name === name))
    .map((column) => ({ ...column, isKept: true }));
}

/**
 * Returns the changes in the order in which they are to be made. `known` null: no shape is recorded, so columns are matched by name. A column
 * that somebody has already changed at the sink is taken as it is.
 */
export function planMigration(
  table: TargetTable,
  known: FollowedShape | null,
  relation: Relation,
  strategy: MigrationStrategy,
): readonly TableChange[] {
  const columns = planColumns(table, known?.columns ?? [], relation, strategy);
  const { drop, add } = planKey(table, known?.key ?? null, relation, (name) => nameAfter(name, columns));
  return [...(drop ? [drop] : []), ...columns, ...(add ? [add] : [])];
}

/** A column's name after the changes; null: it will be dropped. */
function nameAfter(name: string, changes: readonly ColumnChange[]): string | null {
  let now = name;
  for (const change of changes) {
    if (change.kind === "drop" && change.name === now) return null;
    if (change.kind === "rename" && change.from === now) now = change.to;
  }
  return now;
}

function planColumns(
  table: TargetTable,
  known: readonly FollowedColumn[],
  relation: Relation,
  strategy: MigrationStrategy,
): readonly ColumnChange[] {
  const names = new Set(table.columns.map(({ name }) => name));
  const followed = known.filter(({ isKept }) => !isKept);
  const drops: Drop[] = [];
  let next: readonly Drop[] = [
    ...(isAllowed(strategy, "Drop") ? planDrops(names, followed, relation) : []),
    ...planHashDrop(names, followed, relation),
  ];
  let renames: readonly Rename[] = [];
  do {
    drops.push(...next);
    for (const { name } of next) names.delete(name);
    renames = planRenames(names, followed, relation);
    next = planReuse(names, known, renames, relation);
  } while (next.length > 0);
  for (const { from, to } of renames) {
    names.delete(from);
    names.add(to);
  }
  const added = relation.columns.filter(({ name }) => !names.has(name));
  return [
    ...drops,
    ...renames,
    ...planRetypes(table.columns, known, relation),
    ...added.map((column) => ({ kind: "add", column }) as const),
    ...planNulls(table.columns, names, relation),
  ];
}

/**
 * Whether a copy of all rows fits the table as it is: it has the columns by name and type. Somebody may have made the changes by hand, in a way
 * that the columns' numbers do not show.
 */
export function fitsByName(table: TargetTable, relation: Relation, strategy: MigrationStrategy): boolean {
  const types = new Map(table.columns.map(({ name, typeName }) => [name, typeName]));
  const isThere = relation.columns.every(({ name, typeName }) => types.get(name) === typeName);
  return isThere && planMigration(table, null, relation, strategy).length === 0;
}

/**
 * Changes that the strategy does not allow or that would undo somebody's choice, with the changes that free a name for them. Somebody makes
 * them by hand. A column that must not be dropped just stays, as long as no other column gets its name.
 */
export function refusedChanges(
  strategy: MigrationStrategy,
  changes: readonly TableChange[],
): readonly TableChange[] {
  const refused = new Set(
    changes.filter(
      (change) =>
        (change.kind === "retype" && change.isChosen) ||
        !strategyWords(change).every((word) => isAllowed(strategy, word)),
    ),
  );
  // Include the renames on which the commands' column names depend.
  const retyped = [...refused].flatMap((change) => (change.kind === "retype" ? [change.column.name] : []));
  if (changes.some((change) => change.kind === "rename" && retyped.includes(change.to)))
    for (const change of changes) if (change.kind === "rename") refused.add(change);
  const wanted = new Set([...refused].flatMap(nameTaken));
  return changes.filter(
    (change) => refused.has(change) || (change.kind === "drop" && wanted.has(change.name)),
  );
}

function nameTaken(change: TableChange): readonly string[] {
  if (change.kind === "add") return [change.column.name];
  return change.kind === "rename" ? [change.to] : [];
}

function strategyWords({ kind }: TableChange): readonly MigrationStrategy["allowed"][number][] {
  switch (kind) {
    case "drop":
      return ["Drop"];
    case "rename":
      return ["Add", "Drop"];
    case "retype":
      return ["Datatype"];
    case "add":
      return ["Add"];
    case "allow null":
    case "drop key":
    case "add key":
      return ["Nullability"];
    default:
      return kind satisfies never;
  }
}

export function isAllowed(
  { allowed, disable_all }: MigrationStrategy,
  word: (typeof allowed)[number],
): boolean {
  return !disable_all && allowed.includes(word);
}

type Drop = Extract<ColumnChange, { kind: "drop" }>;
type Rename = Extract<ColumnChange, { kind: "rename" }>;

/** Drops columns that the source no longer has. A column that is only excluded stays. */
function planDrops(
  names: ReadonlySet<string>,
  known: readonly FollowedColumn[],
  relation: Relation,
): readonly Drop[] {
  const present = new Set([...relation.columns.map(({ number }) => number), ...relation.withheld]);
  if (present.has(0)) return [];
  return known
    .filter(({ number, name }) => number > 0 && !present.has(number) && names.has(name))
    .map(({ name }) => ({ kind: "drop", name }));
}

/** The source's table has got a key: drops the hash column that stood for one, and with it the primary key. */
function planHashDrop(
  names: ReadonlySet<string>,
  known: readonly FollowedColumn[],
  relation: Relation,
): readonly Drop[] {
  const isOurs = known.some(({ number, name }) => number < 0 && name === rowHashColumn);
  const isGone = !relation.columns.some(({ name }) => name === rowHashColumn);
  return isOurs && isGone && names.has(rowHashColumn) ? [{ kind: "drop", name: rowHashColumn }] : [];
}

/**
 * Drops columns whose names other columns of the source have got, unless they are renamed themselves: their values are not those of the others.
 * This applies also to columns that the strategy has kept so far.
 */
function planReuse(
  names: ReadonlySet<string>,
  known: readonly FollowedColumn[],
  renames: readonly Rename[],
  relation: Relation,
): readonly Drop[] {
  const freed = new Set(renames.map(({ from }) => from));
  const isReused = ({ number, name }: FollowedColumn) => {
    const user = relation.columns.find((column) => column.name === name);
    if (!user || user.number <= 0 || user.number === number) return false;
    const before = known.find((column) => column.number === user.number && !column.isKept);
    // Without its old name, somebody has renamed it already.
    return !before || names.has(before.name);
  };
  return known
    .filter((column) => column.number > 0 && names.has(column.name) && !freed.has(column.name))
    .filter(isReused)
    .map(({ name }) => ({ kind: "drop", name }));
}

/** Names may have been swapped: one column of such a cycle gets a temporary name first. */
function planRenames(
  names: ReadonlySet<string>,
  known: readonly FollowedColumn[],
  relation: Relation,
): readonly Rename[] {
  const present = new Map(relation.columns.map((column) => [column.number, column.name]));
  const waiting = known.flatMap(({ number, name }) => {
    const to = number > 0 ? present.get(number) : undefined;
    return to !== undefined && to !== name && names.has(name) ? [{ from: name, to }] : [];
  });
  const taken = new Set(names);
  const renames: Rename[] = [];
  const rename = (from: string, to: string) => {
    renames.push({ kind: "rename", from, to });
    taken.delete(from);
    taken.add(to);
  };
  while (waiting.length > 0) {
    const free = waiting.findIndex(({ to }) => !taken.has(to));
    const [next] = waiting.splice(Math.max(free, 0), 1);
    if (!next) break;
    if (free >= 0) rename(next.from, next.to);
    else if (waiting.some(({ from }) => from === next.to)) {
      const aside = `millrace_renamed_${renames.length}`;
      rename(next.from, aside);
      waiting.push({ from: aside, to: next.to });
    }
    // Otherwise somebody has made a column of that name at the sink: it is taken as it is.
  }
  return renames;
}

/**
 * Retypes columns that had the source's type so far, or whose type the source has recreated under the same name. Another type is somebody's
 * choice, and stays as long as it can hold the values.
 */
function planRetypes(
  columns: readonly TargetColumn[],
  known: readonly FollowedColumn[],
  relation: Relation,
): readonly ColumnChange[] {
  return relation.columns.flatMap((column) => {
    const before = known.find(({ number }) => number > 0 && number === column.number);
    if (!before) return [];
    // Somebody may have renamed it already.
    const named = (wanted: string) => columns.find(({ name }) => name === wanted);
    const atSink = named(before.name) ?? named(column.name);
    if (!atSink) return [];
    const retype = retypeOf({ column, atSink });
    if (isReplacedType(atSink.typeName)) return [retype];
    if (before.type === column.typeName) return [];
    if (atSink.typeName === before.type) return [retype];
    return mayHoldValuesOf(atSink.typeName, column.typeName) ? [] : [{ ...retype, isChosen: true }];
  });
}

/** A column that the source does not send must not refuse its rows. */
function planNulls(
  columns: readonly TargetColumn[],
  names: ReadonlySet<string>,
  relation: Relation,
): readonly ColumnChange[] {
  return columns
    .filter(({ notNull, hasDefault, generated }) => notNull && !hasDefault && !generated)
    .filter(({ name }) => names.has(name) && !relation.columns.some((column) => column.name === name))
    .map(({ name }) => ({ kind: "allow null", name }));
}
