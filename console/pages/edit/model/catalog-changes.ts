// What a changed selection means, table by table and column by column: its entries, as JSON, say little to people. Pure.

import type { CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import type { JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { type Column, type KnownTables, type Schema, Selection, type Table } from "../catalog/selection.ts";
import type { Change } from "./change.ts";
import { isSame } from "./patch.ts";

const carried = "carried";
const leftOut = "left out";

/** Null: it cannot be said by tables and columns. `known`: the tables of the source; null: they did not come. */
export function catalogChanges(
  was: JsonValue | undefined,
  is: JsonValue | undefined,
  known: KnownTables | null,
): readonly Change[] | null {
  const [before, after] = [was ?? {}, is ?? {}] as unknown as [CatalogRequest, CatalogRequest];
  if (!isReadable(before) || !isReadable(after)) return null;
  const [old, now] = [new Selection(before), new Selection(after)];
  const changes = [...tablesBySchema([before, after], known)].flatMap(([schema, tables]) => [
    ...[...tables].flatMap((table) => tableChanges(schema, table, old, now)),
    ...laterTables(schema, old, now),
  ]);
  return changes.length > 0 ? changes : null;
}

/** Whoever edits the JSON may leave anything there. */
function isReadable({ schemas = [] }: CatalogRequest): boolean {
  const areNamed = (items: unknown): items is readonly { readonly name: string }[] =>
    Array.isArray(items) && items.every((item) => typeof item?.name === "string");
  return (
    areNamed(schemas) &&
    schemas.every(
      ({ tables = [] }: Schema) =>
        areNamed(tables) && tables.every(({ columns = [] }: Table) => areNamed(columns)),
    )
  );
}

function tablesBySchema(
  catalogs: readonly CatalogRequest[],
  known: KnownTables | null,
): ReadonlyMap<string, ReadonlySet<string>> {
  const all: readonly Schema[] = [...(known ?? []), ...catalogs.flatMap(({ schemas = [] }) => schemas)];
  const names = new Map<string, Set<string>>();
  for (const { name, tables = [] } of all) {
    const ofSchema = names.get(name) ?? new Set();
    for (const table of tables) ofSchema.add(table.name);
    names.set(name, ofSchema);
  }
  return names;
}

function tableChanges(schema: string, table: string, old: Selection, now: Selection): Change[] {
  const path = `${schema}.${table}`;
  const word = (selection: Selection) => (selection.hasTable(schema, table) ? carried : leftOut);
  const [before, after] = [old.table(schema, table), now.table(schema, table)];
  return [
    ...changeOf(path, word(old), word(now)),
    ...settingsChange(path, before, after),
    ...columnNames(before, after).flatMap((name) => columnChanges(`${path}.${name}`, name, before, after)),
  ];
}

function columnNames(...entries: readonly (Table | undefined)[]): string[] {
  return [...new Set(entries.flatMap((entry) => entry?.columns ?? []).map(({ name }) => name))];
}

function columnChanges(path: string, name: string, was: Table | undefined, is: Table | undefined): Change[] {
  const of = (table: Table | undefined) => table?.columns?.find((column) => column.name === name);
  return changeOf(path, columnWord(of(was)), columnWord(of(is)));
}

function columnWord(column: Column | undefined): string {
  if (column?.action === "Exclude") return leftOut;
  if (!column?.hash) return carried;
  return Object.keys(column.hash).length === 0 ? "hashed" : `hashed ${JSON.stringify(column.hash)}`;
}

/** What an entry says beside what is carried. The service writes out what a new one leaves unsaid. */
function settingsChange(path: string, was: Table | undefined, is: Table | undefined): Change[] {
  const settings = ({ name, action, columns, ...rest }: Table) => rest as JsonValue;
  if (!was || !is || isSame(settings(was), settings(is))) return [];
  return changeOf(path, JSON.stringify(settings(was)), JSON.stringify(settings(is)));
}

/** Where the change is not that of the whole selection, which is told by itself. */
function laterTables(schema: string, old: Selection, now: Selection): Change[] {
  const standard = ({ catalog }: Selection) => catalog.default_action ?? "Include";
  if (standard(old) !== standard(now)) return [];
  const word = (selection: Selection) => (selection.takesNewTables(schema) ? carried : leftOut);
  return changeOf(`${schema}: tables that are created later`, word(old), word(now));
}

function changeOf(path: string, before: string, after: string): Change[] {
  return before === after ? [] : [{ path, before, after }];
}
