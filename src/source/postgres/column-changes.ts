// Finds in the catalog what logical decoding does not tell of a table's change: values that rows got without an event. Pure.
// https://www.postgresql.org/docs/current/logical-replication-restrictions.html

import { qualifiedName, type TableShape } from "../../change/relation.ts";

/** A column as the catalog numbers it: its number stays when it is renamed, and is never given to another. */
export interface ColumnFacts {
  readonly number: number;
  readonly name: string;
  readonly typeOid: number;
  /** It was added with a default: rows that were there have that value. */
  readonly hasDefault: boolean;
}

/** What is remembered of a table to notice the change. */
export interface TableFacts {
  readonly columns: readonly ColumnFacts[];
  readonly storage: string;
}

/** Why rows that were there may differ at a sink by now; null: they do not. */
export function silentChange(before: TableFacts, after: TableFacts): string | null {
  const known = new Map(before.columns.map((column) => [column.number, column]));
  const reasons = after.columns.flatMap((column) => {
    const old = known.get(column.number);
    if (!old) return column.hasDefault ? [`column ${column.name} was added with a default`] : [];
    if (old.name !== column.name) return [`column ${old.name} was renamed to ${column.name}`];
    const isRewritten = old.typeOid !== column.typeOid && before.storage !== after.storage;
    return isRewritten ? [`column ${column.name} was given another type`] : [];
  });
  return reasons.length > 0 ? reasons.join(", ") : null;
}

/** What to tell people, with what mends it. */
export function silentChangeWarning(table: TableShape, change: string): string {
  const { schema, name } = table.relation;
  return (
    `Table ${qualifiedName(table.relation)}: ${change}. Rows that were there before may differ at the sink. Create a Snapshot ` +
    `task to mend it: POST …/tasks {"Snapshot":{"schema":${JSON.stringify(schema)},"name":${JSON.stringify(name)}}}`
  );
}
