// Plans which computed columns a target gets, keeps and loses. They hold nothing of their own: they may be dropped and
// made anew wherever columns may be added. Pure.

import type { GeneratedColumn, Relation, TableShape } from "../../../change/relation.ts";
import { isAllowed, type MigrationStrategy, type TableChange } from "../schema/migration/table-migration.ts";
import type { TargetColumn, TargetTable } from "../schema/target-table.ts";
import type { OwnComputed } from "./computed-column.ts";

type OwnColumn = TargetColumn & { readonly own: OwnComputed };

export interface ComputedPlan {
  readonly drops: readonly string[];
  readonly renames: readonly { readonly from: string; readonly to: string }[];
  readonly adds: readonly GeneratedColumn[];
}

/** For a target that follows the shape's relation. */
export function planComputed(
  table: TargetTable,
  { relation, generated = [] }: TableShape,
  strategy: MigrationStrategy,
): ComputedPlan {
  if (!isAllowed(strategy, "Add")) return { drops: [], renames: [], adds: [] };
  const wanted = new Map(generated.map((column) => [column.column.number, column]));
  const nameOf = (number: number) => relation.columns.find((column) => column.number === number)?.name;
  const own = ownColumns(table);
  const kept = own.filter((column) => {
    const now = wanted.get(column.own.number);
    return now !== undefined && isComputedAs(column, now, nameOf);
  });
  const isNeeded = ({ name }: OwnColumn) => generated.some(({ column }) => column.name === name);
  const mayGo = (column: OwnColumn) =>
    wanted.has(column.own.number) || isNeeded(column) || isAllowed(strategy, "Drop");
  const isSent = ({ name }: OwnColumn) => relation.columns.some((column) => column.name === name);
  const drops = own.filter((column) => !kept.includes(column) && !isSent(column) && mayGo(column));
  const gone = new Set(drops.map(({ name }) => name));
  const isTaken = (name: string) => table.columns.some((column) => column.name === name && !gone.has(name));
  const renames = kept.flatMap((column) => {
    const { name } = wanted.get(column.own.number)!.column;
    return name === column.name || isTaken(name) ? [] : [{ from: column.name, to: name }];
  });
  const isKept = ({ column }: GeneratedColumn) =>
    kept.some(({ own: { number } }) => number === column.number);
  return {
    drops: [...gone],
    renames,
    adds: generated.filter((column) => !isKept(column) && !isTaken(column.column.name)),
  };
}

export function ownColumns(table: TargetTable): readonly OwnColumn[] {
  return table.columns.flatMap((column) => {
    const own = column.generatedAs?.own;
    return own ? [{ ...column, own }] : [];
  });
}

/**
 * Whether it computes the same, of the same columns. A rename at the source changes the names in the expression: the
 * sink's own then has them too, once it follows. The text alone does not tell: other columns may have got the names.
 * `nameOf`: the target's name for a column of the source.
 */
export function isComputedAs(
  { own, typeName, generatedAs }: OwnColumn,
  wanted: GeneratedColumn,
  nameOf: (number: number) => string | undefined,
): boolean {
  return (
    own.number === wanted.column.number &&
    typeName === wanted.column.typeName &&
    generatedAs?.isVirtual === wanted.isVirtual &&
    [own.expression, generatedAs.expression].includes(wanted.expression) &&
    Bun.deepEquals(generatedAs.reads, wanted.reads.map(nameOf))
  );
}

/** What stands in the way of columns that the relation sends. */
export interface Cleared {
  /** The target once that is done. */
  readonly table: TargetTable;
  /** Other columns of the source have their names now. */
  readonly drops: readonly string[];
  /** The source does not compute them any more, or sends them: what they hold is what it computed. */
  readonly undone: readonly string[];
}

/** Computed columns of ours whose names are those of columns that the relation sends. */
export function clearComputed(table: TargetTable, relation: Relation, strategy: MigrationStrategy): Cleared {
  if (!isAllowed(strategy, "Add")) return { table, drops: [], undone: [] };
  const clashes = ownColumns(table).flatMap((column) => {
    const sent = relation.columns.find(({ name }) => name === column.name);
    return sent
      ? [{ column, isSame: sent.number === column.own.number && !column.generatedAs?.isVirtual }]
      : [];
  });
  const named = (isSame: boolean) =>
    clashes.filter((clash) => clash.isSame === isSame).map(({ column }) => column.name);
  const [undone, drops] = [named(true), named(false)];
  const columns = table.columns
    .filter(({ name }) => !drops.includes(name))
    .map((column) =>
      undone.includes(column.name) ? { ...column, generated: false, generatedAs: null } : column,
    );
  return { table: clashes.length === 0 ? table : { ...table, columns }, drops, undone };
}

/** Computed columns of ours that must go before these changes, as their expressions read what is dropped or retyped. */
export function computedFrom(
  table: TargetTable,
  changes: readonly TableChange[],
  strategy: MigrationStrategy,
): readonly string[] {
  if (!isAllowed(strategy, "Add")) return [];
  const before = (name: string) =>
    changes.findLast((change) => change.kind === "rename" && change.to === name);
  const changed = changes.flatMap((change) => {
    if (change.kind === "drop") return [change.name];
    if (change.kind !== "retype") return [];
    const renamed = before(change.column.name);
    return [change.column.name, ...(renamed?.kind === "rename" ? [renamed.from] : [])];
  });
  return ownColumns(table)
    .filter(({ generatedAs }) => generatedAs?.reads.some((name) => changed.includes(name)))
    .map(({ name }) => name);
}
