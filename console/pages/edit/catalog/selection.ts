// Which tables and columns a connector selects, and how a click changes that. The rules are the service's (src/connector/config/catalog.ts,
// which a test holds this against). What is not asked about stays as it is: entries keep members that the page does not know. Pure.

import type { Catalog, CatalogRequest } from "../../../../src/connector/config/catalog.ts";

export type Schema = NonNullable<CatalogRequest["schemas"]>[number];
export type Table = NonNullable<Schema["tables"]>[number];
export type Column = NonNullable<Table["columns"]>[number];
export type Action = NonNullable<CatalogRequest["default_action"]>;

/** The tables of the source, by schema. */
export type KnownTables = Catalog["schemas"];

const listed = (schema: Schema | undefined) => schema?.tables ?? [];
const find = <Item extends { readonly name: string }>(items: readonly Item[] | undefined, name: string) =>
  items?.find((item) => item.name === name);

/** Looks a selection up, quickly also with thousands of entries. */
export class Selection {
  readonly #schemas: ReadonlyMap<
    string,
    { readonly entry: Schema; readonly tables: ReadonlyMap<string, Table> }
  >;

  constructor(readonly catalog: CatalogRequest) {
    this.#schemas = new Map(
      (catalog.schemas ?? []).map((entry) => [
        entry.name,
        { entry, tables: new Map(listed(entry).map((table) => [table.name, table])) },
      ]),
    );
  }

  hasTable(schema: string, table: string): boolean {
    const known = this.#schemas.get(schema);
    const entry = known?.tables.get(table);
    return entry ? entry.action !== "Exclude" : fallback(known?.entry, this.catalog.default_action);
  }

  table(schema: string, table: string): Table | undefined {
    return this.#schemas.get(schema)?.tables.get(table);
  }

  /** What becomes of a table of this schema that nobody knows yet. */
  takesNewTables(schema: string): boolean {
    return fallback(this.#schemas.get(schema)?.entry, this.catalog.default_action);
  }
}

/** What a table has that the catalog does not list. */
function fallback(schema: Schema | undefined, standard: Action = "Include"): boolean {
  if (!schema) return standard === "Include";
  if (schema.action === "Exclude") return false;
  return listed(schema).length === 0 || standard === "Include";
}

export interface TableName {
  readonly schema: string;
  readonly table: string;
}

/** Takes tables in, or leaves them out, and changes nothing about any other known table. */
export function withTables(
  catalog: CatalogRequest,
  known: KnownTables,
  tables: readonly TableName[],
  isTaken: boolean,
): CatalogRequest {
  const selection = new Selection(catalog);
  let result = catalog;
  for (const [name, chosen] of Map.groupBy(tables, ({ schema }) => schema)) {
    const wanted = wantedTables(selection, known, name);
    for (const { table } of chosen) wanted.set(table, isTaken);
    const isWhole = chosen.length > 1 && chosen.length >= (find(known, name)?.tables.length ?? 0);
    const touched = new Set(isWhole ? wanted.keys() : chosen.map(({ table }) => table));
    result = withSchema(result, name, { wanted, touched, whole: isWhole ? isTaken : null });
  }
  return tidy(result);
}

/** Tables that are created later are carried, or not; those that are there stay as they are. */
export function withNewTables(catalog: CatalogRequest, known: KnownTables, action: Action): CatalogRequest {
  const selection = new Selection(catalog);
  const names = new Set([...known, ...(catalog.schemas ?? [])].map(({ name }) => name));
  let result: CatalogRequest = { ...catalog, default_action: action };
  for (const name of names) {
    const wanted = wantedTables(selection, known, name);
    const [first = null, ...others] = new Set(wanted.values());
    const whole = others.length === 0 ? first : null;
    result = withSchema(result, name, { wanted, touched: new Set(wanted.keys()), whole });
  }
  return tidy(result);
}

export interface ColumnChange {
  readonly isTaken?: boolean;
  readonly isHashed?: boolean;
}

export function withColumn(
  catalog: CatalogRequest,
  known: KnownTables,
  { schema, table }: TableName,
  column: string,
  change: ColumnChange,
): CatalogRequest {
  const wanted = wantedTables(new Selection(catalog), known, schema);
  const before = find(catalog.schemas, schema) ?? { name: schema };
  const entry = find(listed(before), table) ?? { name: table };
  const columns = put(
    entry.columns ?? [],
    changedColumn(find(entry.columns, column) ?? { name: column }, change),
  );
  const kept = columns.filter((each) => each.action === "Exclude" || hasSettings(each));
  const { columns: _, ...rest } = entry;
  const changed: Table = kept.length === 0 ? rest : { ...rest, columns: kept };
  return withHashing(withTable(catalog, { schema, table }, before, changed, wanted));
}

/** Whether every change of the table is kept at a Postgres sink. */
export function withHistory(
  catalog: CatalogRequest,
  known: KnownTables,
  { schema, table }: TableName,
  isKept: boolean,
): CatalogRequest {
  const wanted = wantedTables(new Selection(catalog), known, schema);
  const before = find(catalog.schemas, schema) ?? { name: schema };
  const { history_enabled: _, ...rest } = find(listed(before), table) ?? { name: table };
  const changed: Table = isKept ? { ...rest, history_enabled: true } : rest;
  return withTable(catalog, { schema, table }, before, changed, wanted);
}

/** The catalog with this entry of the table, where it says anything. */
function withTable(
  catalog: CatalogRequest,
  { schema, table }: TableName,
  before: Schema,
  entry: Table,
  wanted: ReadonlyMap<string, boolean>,
): CatalogRequest {
  const listing = {
    ...catalog,
    schemas: put(catalog.schemas ?? [], { ...before, tables: put(listed(before), entry) }),
  };
  return tidy(withSchema(listing, schema, { wanted, touched: new Set([table]), whole: null }));
}

export function hashesSomething(catalog: CatalogRequest): boolean {
  return (catalog.schemas ?? []).some((schema) =>
    listed(schema).some(({ columns }) => columns?.some(({ hash }) => hash !== undefined)),
  );
}

/** The API wants to be told how: with what is there, or with a salt that is still to be given. */
function withHashing(catalog: CatalogRequest): CatalogRequest {
  const { column_hashing: hashing, ...rest } = catalog;
  if (hashesSomething(catalog)) return { ...catalog, column_hashing: hashing ?? {} };
  return hashing && Object.keys(hashing).length > 0 ? catalog : rest;
}

// --- entries -----------------------------------------------------------------------------------

interface Wish {
  /** Each table that is known, or listed. */
  readonly wanted: ReadonlyMap<string, boolean>;
  /** Entries that are decided anew; others stay word for word. */
  readonly touched: ReadonlySet<string>;
  /** The schema as a whole was taken in or left out; null: some of its tables. */
  readonly whole: boolean | null;
}

/** What each table is now: those of the source, and those that the catalog names. */
function wantedTables(selection: Selection, known: KnownTables, schema: string): Map<string, boolean> {
  const names = [...(find(known, schema)?.tables ?? []), ...listed(find(selection.catalog.schemas, schema))];
  return new Map(names.map(({ name }) => [name, selection.hasTable(schema, name)]));
}

/** The catalog with an entry for the schema that selects what is wanted. */
function withSchema(catalog: CatalogRequest, name: string, wish: Wish): CatalogRequest {
  if (wish.wanted.size === 0) return catalog;
  const { default_action: standard = "Include", schemas = [] } = catalog;
  const before = find(schemas, name) ?? { name };
  const action = schemaAction(before, wish, standard);
  const tables = listedTables(before, wish, action === "Include" && standard === "Include");
  const { tables: _, ...rest } = before;
  const entry: Schema = { ...rest, action, ...(tables.length > 0 && { tables }) };
  const isNeeded = tables.length > 0 || action !== standard || hasSettings(rest);
  return {
    ...catalog,
    schemas: isNeeded ? put(schemas, entry) : schemas.filter((each) => each.name !== name),
  };
}

function schemaAction(before: Schema, { wanted, whole }: Wish, standard: Action): Action {
  if (whole !== null) return whole ? "Include" : "Exclude";
  // What is listed under "Exclude" is the whole selection.
  if (standard === "Exclude") return [...wanted.values()].includes(true) ? "Include" : "Exclude";
  return before.action ?? "Include";
}

/** Those that differ from what unlisted tables are, those with settings of their own, and those that nobody asked about. */
function listedTables(before: Schema, { wanted, touched }: Wish, unlisted: boolean): Table[] {
  const old = new Map(listed(before).map((table) => [table.name, table]));
  return [...wanted].flatMap(([name, isTaken]): Table[] => {
    const entry = old.get(name);
    if (entry && !touched.has(name)) return [entry];
    if (isTaken === unlisted && !(entry && hasSettings(entry))) return [];
    return [{ ...(entry ?? { name }), action: isTaken ? "Include" : "Exclude" }];
  });
}

/** Says more than whether it is carried. */
function hasSettings(entry: Schema | Table | Column): boolean {
  return Object.keys(entry).some((key) => key !== "name" && key !== "action");
}

function changedColumn(column: Column, { isTaken, isHashed }: ColumnChange): Column {
  const { hash: _, action: __, ...rest } = column;
  const hash = isHashed === undefined ? column.hash : isHashed ? (column.hash ?? {}) : undefined;
  const action = isTaken === undefined ? column.action : isTaken ? "Include" : "Exclude";
  return { ...rest, ...(action !== undefined && { action }), ...(hash !== undefined && { hash }) };
}

function put<Item extends { readonly name: string }>(items: readonly Item[], item: Item): Item[] {
  const isThere = items.some(({ name }) => name === item.name);
  return isThere ? items.map((each) => (each.name === item.name ? item : each)) : [...items, item];
}

function tidy(catalog: CatalogRequest): CatalogRequest {
  const { schemas, ...rest } = catalog;
  return schemas?.length === 0 ? rest : catalog;
}
