import { expect, test } from "bun:test";
import { BatchBuilder } from "../../../src/change/batch-builder.ts";
import { lsn } from "../../../src/change/lsn.ts";
import { copyIdentity, type Relation } from "../../../src/change/relation.ts";
import { tupleColumns } from "../../../src/change/tuple.ts";
import {
  renderedColumnsSql,
  renderedRelation,
  tupleRenderer,
} from "../../../src/source/postgres/row-rendering.ts";
import type { TableSelection } from "../../../src/source/postgres/table-selection.ts";

function hashing(columns: readonly string[], salt = "s4lt"): TableSelection {
  return {
    includesTable: () => true,
    includesColumn: () => true,
    hashedColumns: (_, table) => (table === "t" ? columns : []),
    salt,
  };
}

const column = (name: string, typeOid: number) => ({
  ...{ name, number: 0, typeOid, typmod: -1, typeName: "some" },
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

test("a table without hashed columns is left as it is", () => {
  const other = { ...relation, name: "other" };
  const selection = hashing(["id"]);
  expect(renderedRelation(other, selection)).toBe(other);
  expect(renderedColumnsSql(other, selection)).toBeNull();
  expect(tupleRenderer(other, selection)).toBeNull();
});

test("a hashed column is text that has no binary form, and the key stays where it is", () => {
  const rendered = renderedRelation(relation, hashing(["id"]));
  expect(rendered.columns[0]).toMatchObject({
    name: "id",
    typeOid: 25,
    typeName: "text",
    binaryLayout: null,
  });
  expect(rendered.columns[1]).toBe(relation.columns[1]!);
  expect(rendered.key).toEqual([0]);
});

test("the SQL of the copy quotes names and does not hold the salt", () => {
  const selection = hashing(['o"dd']);
  const sql = renderedColumnsSql(renderedRelation(relation, selection), selection) ?? "";
  expect(sql).toContain(`format('%s', "o""dd")`);
  expect(sql).toEndWith(`as "o""dd"`);
  expect(sql).not.toContain("s4lt");
});

test("a copy is another one with other hashed columns or another salt, and does not tell the salt", () => {
  const identities = [hashing([]), hashing(["id"]), hashing(["id", 'o"dd']), hashing(["id"], "other")].map(
    (selection) => copyIdentity(renderedRelation(relation, selection)),
  );
  expect(new Set(identities).size).toBe(4);
  expect(identities.join()).not.toContain("s4lt");
  const same = copyIdentity(renderedRelation(relation, hashing(['o"dd', "id"])));
  expect(same).toBe(identities[2]!);
});

test("a tuple is rewritten where it lies: hashes, nulls and unchanged values", () => {
  const builder = new BatchBuilder("text", lsn(1n));
  const selection = hashing(["id", 'o"dd']);
  const renderer = tupleRenderer(renderedRelation(relation, selection), selection);
  const before = [1, 2, 3];
  builder.reserve(100);
  builder.arena.set(before);
  builder.arena.set([0, 2, 0, 0, 0, 3, 97, 98, 99, 255, 255, 255, 254], 3);
  builder.arenaEnd = 16;
  renderer?.rewrite(builder, 3);
  const [id, odd] = tupleColumns(builder.arena, 3);
  // echo -n s4ltabc | sha256sum
  const text = new TextDecoder().decode(builder.arena.subarray(id!.start, id!.start + id!.length));
  expect(text).toBe("5dc10a3e421f4e4b192242300c9347a3f01f39774e0763c66ca585e693cc947f");
  expect(odd?.length).toBe(-2);
  expect(builder.arenaEnd).toBe(3 + 2 + 4 + 64 + 4);
  expect([...builder.arena.subarray(0, 3)]).toEqual(before);
});
