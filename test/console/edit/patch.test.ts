// What is sent when a connector was changed, and what is shown of it.

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { changesOf } from "../../../console/pages/edit/model/changes.ts";
import { isSame, mergePatchOf, withPatch } from "../../../console/pages/edit/model/patch.ts";
import { valueAt, withValue } from "../../../console/pages/edit/model/pointer.ts";
import { type JsonObject, mergePatch } from "../../../src/connector/request/merge-patch.ts";

/** Without nulls, which a merge patch cannot say. */
const values = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, fc.integer(), fc.string(), fc.boolean(), tie("list"), tie("object")),
  list: fc.array(tie("value"), { maxLength: 3 }),
  object: fc.dictionary(fc.constantFrom("a", "b", "c", "a/b", "m~n", "__proto__"), tie("value")),
}));
const objects = values.object as fc.Arbitrary<JsonObject>;

describe("a patch", () => {
  test("merged into what was, gives what is", () => {
    fc.assert(
      fc.property(objects, objects, (before, after) => {
        expect(isSame(mergePatch(before, mergePatchOf(before, after)), after)).toBe(true);
      }),
    );
  });

  test("is merged by the form as the service merges it", () => {
    fc.assert(
      fc.property(objects, objects, (target, patch) => {
        expect(isSame(withPatch(target, patch), mergePatch(target, patch) as JsonObject)).toBe(true);
      }),
    );
    expect(withPatch({ a: { b: 1, c: 2 }, d: 3 }, { a: { b: null }, d: null, e: {} })).toEqual({
      a: { c: 2 },
      e: {},
    });
  });

  test("is empty where nothing was changed, also where null stands for nothing", () => {
    fc.assert(fc.property(objects, (object) => expect(mergePatchOf(object, object)).toEqual({})));
    expect(mergePatchOf({ name: null }, {})).toEqual({});
    expect(mergePatchOf({}, { name: null })).toEqual({});
  });

  test("takes out the old kind of a union", () => {
    const before = { auth: { bearer: { token: "***" } } };
    expect(mergePatchOf(before, { auth: { basic: { username: "u", password: "p" } } })).toEqual({
      auth: { bearer: null, basic: { username: "u", password: "p" } },
    });
    expect(mergePatchOf(before, {})).toEqual({ auth: null });
  });
});

describe("a place", () => {
  test("is changed alone, and made where it is missing", () => {
    const before = { a: { b: 1 }, list: [{ x: 1 }, { x: 2 }] };
    expect(withValue(before, "/a/c/d", 2)).toEqual({ a: { b: 1, c: { d: 2 } }, list: before.list });
    expect(withValue(before, "/list/1/x", 3)).toEqual({ a: { b: 1 }, list: [{ x: 1 }, { x: 3 }] });
    expect(withValue(before, "/a/b", undefined)).toEqual({ a: {}, list: before.list });
    expect(withValue(before, "/not/there", undefined)).toEqual(before);
    expect(valueAt({ "a/b": { "m~n": 1 } }, "/a~1b/m~0n")).toBe(1);
    expect(valueAt(before, "/toString")).toBeUndefined();
  });
});

test("changes are told by place, and secrets never", () => {
  const before = { name: null, source: { password: "***", port: 5432 } };
  const after = { name: "Shop", source: { password: "new-secret", port: 5432 }, disabled: true };
  const changes = changesOf(before, after);
  expect(changes).toEqual([
    { path: "/name", before: null, after: "Shop" },
    { path: "/source/password", before: "***", after: "a new one" },
    { path: "/disabled", before: null, after: "true" },
  ]);
});

describe("a changed selection", () => {
  const connector = (catalog: JsonObject) => ({ source: { postgres: { catalog } } });
  const changes = (before: JsonObject, after: JsonObject) =>
    changesOf(connector(before), connector(after), known).map(({ path, before, after }) =>
      [path, before, after].join(": "),
    );
  const tables = ["customers", "orders"].map((name) => ({
    name,
    action: "Include" as const,
    history_enabled: false,
    columns: [],
  }));
  const known = [{ name: "public", action: "Include" as const, tables }];
  const entry = (name: string, more: JsonObject) => ({
    name,
    action: "Include",
    history_enabled: false,
    ...more,
  });
  const schemas = (...entries: JsonObject[]) => [{ name: "public", action: "Include", tables: entries }];
  const standard = "Include";

  test("is told table by table, not as a list of entries", () => {
    const before = { default_action: standard, schemas: schemas(entry("orders", { action: "Exclude" })) };
    expect(changes(before, { default_action: standard })).toEqual(["public.orders: left out: carried"]);
    const other = { default_action: standard, schemas: [{ name: "public", action: "Exclude" }] };
    expect(changes(before, other)).toEqual([
      "public.customers: carried: left out",
      "public: tables that are created later: carried: left out",
    ]);
  });

  test("names columns", () => {
    const columns: JsonObject[] = [
      { name: "name", action: "Exclude" },
      { name: "mail", hash: {} },
    ];
    const after = { default_action: standard, schemas: schemas(entry("customers", { columns })) };
    expect(changes({ default_action: standard, schemas: [] }, after)).toEqual([
      "public.customers.name: carried: left out",
      "public.customers.mail: carried: hashed",
    ]);
  });

  test("shows its entries where no table says it", () => {
    const [path] = changes({ default_action: standard }, { default_action: standard, schemas: "nonsense" });
    expect(path).toBe("/source/postgres/catalog/schemas: : nonsense");
    const settings = (history_enabled: boolean) => ({
      schemas: schemas(entry("orders", { history_enabled })),
    });
    expect(changes(settings(false), settings(true))).toEqual([
      'public.orders: {"history_enabled":false}: {"history_enabled":true}',
    ]);
  });
});
