import { expect, test } from "bun:test";
import { withoutSql } from "../../console/connector/without-sql.ts";

const one = 'alter table "public"."t" add column "note" text';
const other = "delete from t";

test("the SQL that stands in the box below is left out of the reason, and no other", () => {
  const why = "Table t at the sink has no column note.";
  expect(withoutSql(`${why} Run: ${one};`, [`${one};`])).toBe(why);
  expect(withoutSql(`${why} Run at the sink: ${other}; ${one}; Then it goes on.`, [other, `${one};`])).toBe(
    `${why} Then it goes on.`,
  );
  for (const commands of [[], [other]])
    expect(withoutSql(`${why} Run: ${one};`, commands)).toBe(`${why} Run: ${one};`);
});
