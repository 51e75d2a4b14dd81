// Tables that a catalog names and the source lacks.

import { expect, test } from "bun:test";
import type { TableShape } from "../../../../src/change/relation.ts";
import { absentTables } from "../../../../src/source/postgres/catalog/named-tables.ts";
import { usedMs } from "../../../support/processor-time.ts";
import { relation } from "../../../support/rows/batch-fixture.ts";

test("one of ten thousand is missed in a moment", () => {
  const names = Array.from({ length: 10_000 }, (_, i) => `t${i}`);
  const shapes = names
    .filter((name) => name !== "t9998")
    .map((name) => ({ relation: relation(name, [["id", 20, "bigint"]]) })) as unknown as TableShape[];
  const tables = names.map((name) => ({
    name,
    columns: [],
    history_enabled: false,
    action: name === "t9999" ? ("Exclude" as const) : ("Include" as const),
  }));
  const schemas = [{ name: "public", action: "Include" as const, tables }];
  const began = usedMs();
  const absent = absentTables({ name: "", default_action: "Exclude", schemas }, shapes);
  expect(usedMs() - began).toBeLessThan(300);
  expect(absent?.message).toContain("as permanent tables: public.t9998.");
});
