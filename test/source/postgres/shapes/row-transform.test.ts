import { expect, test } from "bun:test";
import { BatchBuilder } from "../../../../src/change/batch-builder.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import { copyIdentity, isIdentified, type Relation } from "../../../../src/change/relation.ts";
import { tupleColumns } from "../../../../src/change/tuple.ts";
import type { TableSelection } from "../../../../src/source/postgres/catalog/table-selection.ts";
import {
  transformedQuery,
  transformedRelation,
  tupleTransformer,
} from "../../../../src/source/postgres/shapes/row-transform.ts";
import { systemColumnsOf } from "../../../../src/source/postgres/shapes/system-columns.ts";

function hashing(columns: readonly string[], salt = "s4lt"): TableSelection {
  return {
    includesTable: () => true,
    includesColumn: () => true,
    mayExclude: () => false,
    hashedColumns: (_, table) => (table === "t" ? columns : []),
    salt,
    hashesKeylessRows: true,
    systemColumns: systemColumnsOf({}),
  };
}

const column = (name: string, typeOid: number) => ({
  name,
  number: 0,
  typeOid,
  typmod: -1,
  typeName: "some",
  binaryLayout: String(typeOid),
  addedValue: null,
});
const relation: Relation = {
  id: 7,
  schema: "public",
  name: "t",
  replicaIdentity: "default",
  columns: [column("id", 20), column('o"dd', 1043)],
  key: [0],
  withheld: [],
};

test("a table without hashed columns is unchanged", () => {
  const other = { ...relation, name: "other" };
  const selection = hashing(["id"]);
  expect(transformedRelation(other, selection, false)).toBe(other);
  expect(transformedQuery(other, selection, "t", lsn(1n))).toBeNull();
  expect(tupleTransformer(other, selection, "text")).toBeNull();
});

test("a hashed column is text without a binary form, and the key keeps its position", () => {
  const transformed = transformedRelation(relation, hashing(["id"]), false);
  expect(transformed.columns[0]).toMatchObject({
    name: "id",
    typeOid: 25,
    typeName: "text",
    binaryLayout: null,
  });
  expect(transformed.columns[1]).toBe(relation.columns[1]!);
  expect(transformed.key).toEqual([0]);
});

test("the copy's SQL quotes names and does not contain the salt", () => {
  const selection = hashing(['o"dd']);
  const sql =
    transformedQuery(transformedRelation(relation, selection, false), selection, "only t", lsn(1n)) ?? "";
  expect(sql).toContain(`format('%s', "o""dd")`);
  expect(sql).toEndWith(`as "o""dd" from only t`);
  expect(sql).not.toContain("s4lt");
});

test("other hashed columns or another salt change the copy's fingerprint, which does not reveal the salt", () => {
  const identities = [hashing([]), hashing(["id"]), hashing(["id", 'o"dd']), hashing(["id"], "other")].map(
    (selection) => copyIdentity(transformedRelation(relation, selection, false)),
  );
  expect(new Set(identities).size).toBe(4);
  expect(identities.join()).not.toContain("s4lt");
  // Wide enough to distinguish any two salts.
  expect(identities[1]).toMatch(/ [0-9a-f]{32}\)/);
  const same = copyIdentity(transformedRelation(relation, hashing(['o"dd', "id"]), false));
  expect(same).toBe(identities[2]!);
});

test("a tuple is rewritten in place: hashes, nulls and unchanged values", () => {
  const builder = new BatchBuilder("text", lsn(1n));
  const selection = hashing(["id", 'o"dd']);
  const transformer = tupleTransformer(transformedRelation(relation, selection, false), selection, "text");
  const before = [1, 2, 3];
  builder.reserve(100);
  builder.arena.set(before);
  builder.arena.set([0, 2, 0, 0, 0, 3, 97, 98, 99, 255, 255, 255, 254], 3);
  builder.arenaEnd = 16;
  transformer?.rewrite(builder, 3, -1, null);
  const [id, odd] = tupleColumns(builder.arena, 3);
  // echo -n s4ltabc | sha256sum
  const text = new TextDecoder().decode(builder.arena.subarray(id!.start, id!.start + id!.length));
  expect(text).toBe("5dc10a3e421f4e4b192242300c9347a3f01f39774e0763c66ca585e693cc947f");
  expect(odd?.length).toBe(-2);
  expect(builder.arenaEnd).toBe(3 + 2 + 4 + 64 + 4);
  expect([...builder.arena.subarray(0, 3)]).toEqual(before);
});

test("a row hash covers the names and texts of non-null values, and the key", () => {
  const keyless: Relation = { ...relation, name: "keyless", key: [] };
  const selection = hashing([]);
  const transformed = transformedRelation(keyless, selection, true);
  expect(transformed.columns.map(({ name }) => name)).toEqual(["id", 'o"dd', "_sm_row_hash"]);
  expect(transformed.key).toEqual([2]);
  expect(isIdentified(transformed)).toBe(false);
  expect(isIdentified({ ...transformed, replicaIdentity: "full" })).toBe(true);
  const builder = new BatchBuilder("text", lsn(1n));
  builder.reserve(100);
  builder.arena.set([0, 2, 0, 0, 0, 2, 52, 50, 255, 255, 255, 255]);
  builder.arenaEnd = 12;
  tupleTransformer(transformed, selection, "text")?.rewrite(builder, 0, -1, null);
  const hash = tupleColumns(builder.arena, 0)[2];
  // echo -n '2:id=2:42,' | sha256sum
  const text = new TextDecoder().decode(builder.arena.subarray(hash!.start, hash!.start + hash!.length));
  expect(text).toBe("7b3424b72863fe519d6234711d7b93f15ab01d494ac2129b9437f91cf7b7b076");
});

test("a column with the row hash's name is refused, unless the table has a key", () => {
  const taken: Relation = { ...relation, columns: [column("_sm_row_hash", 25)], key: [] };
  expect(() => transformedRelation(taken, hashing([]), true)).toThrow(/_sm_row_hash/);
  expect(transformedRelation(taken, hashing([]), false)).toBe(taken);
});
