// The tree of tables: what a click changes, and that it changes nothing else. The service's own rules are the oracle.

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  hashesSomething,
  type KnownTables,
  Selection,
  withColumn,
  withHistory,
  withNewTables,
  withTables,
} from "../../../console/pages/edit/catalog/selection.ts";
import type { Catalog, CatalogRequest } from "../../../src/connector/config/catalog.ts";
import { historyAsked, selectTable } from "../../../src/connector/config/catalog-selection.ts";
import { completeConnector } from "../../../src/connector/request/complete-connector.ts";
import { sampleRequest } from "../../support/api/sample-connector.ts";

/** As the service reads it. */
function full(catalog: CatalogRequest): Catalog {
  const request = sampleRequest();
  const { postgres } = request.source;
  if (!postgres) throw new Error("a sample without a source");
  const config = completeConnector({ ...request, source: { postgres: { ...postgres, catalog } } }, "id");
  return config.source.postgres!.catalog;
}

const known: KnownTables = ["public", "sales"].map((name) => ({
  name,
  action: "Include",
  tables: ["a", "b", "c"].map((table) => ({
    name: table,
    action: "Include" as const,
    history_enabled: false,
    columns: ["id", "text"].map((column) => ({ name: column, action: "Include" as const })),
  })),
}));
const places = known.flatMap(({ name, tables }) =>
  tables.map((table) => ({ schema: name, table: table.name })),
);
const taken = (catalog: CatalogRequest) =>
  places
    .filter(({ schema, table }) => selectTable(full(catalog), schema, table))
    .map(({ schema, table }) => `${schema}.${table}`);

const action = fc.constantFrom("Include" as const, "Exclude" as const);
const some = <T extends Record<string, fc.Arbitrary<unknown>>>(members: T) =>
  fc.record(members, { requiredKeys: [] });
const columnEntries = fc
  .uniqueArray(fc.constantFrom("id", "text"), { maxLength: 2 })
  .map((names) => names.map((name) => ({ name, hash: {} })));
const tableEntries = fc
  .uniqueArray(fc.constantFrom("a", "b", "unknown"), { maxLength: 3 })
  .chain((names) =>
    fc.tuple(...names.map((name) => fc.tuple(fc.constant(name), some({ action, columns: columnEntries })))),
  )
  .map((entries) => entries.map(([name, rest]) => ({ name, ...rest })));
const schemaEntries = fc
  .uniqueArray(fc.constantFrom("public", "sales", "gone"), { maxLength: 3 })
  .chain((names) =>
    fc.tuple(...names.map((name) => fc.tuple(fc.constant(name), some({ action, tables: tableEntries })))),
  )
  .map((entries) => entries.map(([name, rest]) => ({ name, ...rest })));
const catalogs = some({ default_action: action, schemas: schemaEntries }) as fc.Arbitrary<CatalogRequest>;

describe("a selection", () => {
  test("is read as the service reads it", () => {
    fc.assert(
      fc.property(catalogs, (catalog) => {
        const selection = new Selection(catalog);
        const shown = places.filter(({ schema, table }) => selection.hasTable(schema, table));
        expect(shown.map(({ schema, table }) => `${schema}.${table}`)).toEqual(taken(catalog));
        for (const schema of ["public", "other"])
          expect(selection.takesNewTables(schema)).toBe(selectTable(full(catalog), schema, "not there yet"));
      }),
      { numRuns: 2_000 },
    );
  });

  test("changes at the tables that are ticked, and nowhere else", () => {
    fc.assert(
      fc.property(
        catalogs,
        fc.subarray(places, { minLength: 1 }),
        fc.boolean(),
        (catalog, chosen, isTaken) => {
          const names = new Set(chosen.map(({ schema, table }) => `${schema}.${table}`));
          const wanted = places
            .map(({ schema, table }) => `${schema}.${table}`)
            .filter((name) => (names.has(name) ? isTaken : taken(catalog).includes(name)));
          expect(taken(withTables(catalog, known, chosen, isTaken))).toEqual(wanted);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test("stays for the tables that are there when those to come are decided", () => {
    fc.assert(
      fc.property(catalogs, action, (catalog, next) => {
        const changed = withNewTables(catalog, known, next);
        expect(taken(changed)).toEqual(taken(catalog));
        expect(changed.default_action).toBe(next);
      }),
      { numRuns: 2_000 },
    );
  });

  test("stays for all tables when a column changes", () => {
    fc.assert(
      fc.property(catalogs, fc.constantFrom(...places), fc.boolean(), (catalog, place, isTaken) => {
        const changed = withColumn(catalog, known, place, "text", { isTaken });
        expect(taken(changed)).toEqual(taken(catalog));
        const columns = new Selection(changed).table(place.schema, place.table)?.columns ?? [];
        expect(columns.find(({ name }) => name === "text")?.action !== "Exclude").toBe(isTaken);
      }),
      { numRuns: 2_000 },
    );
  });

  test("keeps what the page does not know about a table", () => {
    const catalog: CatalogRequest = {
      schemas: [{ name: "public", tables: [{ name: "a", target_option: { shards: 4 } }, { name: "gone" }] }],
    };
    const off = withTables(catalog, known, [{ schema: "public", table: "a" }], false);
    expect(off.schemas?.[0]?.tables).toEqual([
      { name: "a", target_option: { shards: 4 }, action: "Exclude" },
      { name: "gone" },
    ]);
    const on = withTables(off, known, [{ schema: "public", table: "a" }], true);
    expect(on.schemas?.[0]?.tables?.[0]).toEqual({
      name: "a",
      target_option: { shards: 4 },
      action: "Include",
    });
  });

  test("says nothing more once everything is as it was", () => {
    const place = { schema: "public", table: "a" };
    const off = withTables({}, known, [place], false);
    expect(off).toEqual({
      schemas: [{ name: "public", action: "Include", tables: [{ name: "a", action: "Exclude" }] }],
    });
    expect(withTables(off, known, [place], true)).toEqual({});
    const hashed = withColumn({}, known, place, "text", { isHashed: true });
    expect(hashesSomething(hashed)).toBe(true);
    expect(hashed.column_hashing).toEqual({});
    expect(withColumn(hashed, known, place, "text", { isHashed: false })).toEqual({});
    expect(hashesSomething({})).toBe(false);
  });

  test("leaves out a whole schema, with the tables that come later", () => {
    const sales = places.filter(({ schema }) => schema === "sales");
    expect(withTables({}, known, sales, false)).toEqual({ schemas: [{ name: "sales", action: "Exclude" }] });
  });
});

describe("a history", () => {
  const table = { schema: "public", table: "a" };

  test("is asked for of one table, and nothing else changes", () => {
    fc.assert(
      fc.property(catalogs, (catalog) => {
        const kept = withHistory(catalog, known, table, true);
        expect(taken(kept)).toEqual(taken(catalog));
        expect(historyAsked(full(kept))("public", "a")).toBe(true);
        expect(historyAsked(full(kept))("public", "b")).not.toBe(true);
        const left = withHistory(kept, known, table, false);
        expect(taken(left)).toEqual(taken(catalog));
        expect(historyAsked(full(left))("public", "a")).not.toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
