// What the source publishes, and what it does not while a table is locked.

import { expect, test } from "bun:test";
import { MillraceError } from "../../src/errors/millrace-error.ts";
import { asPublished, isUnpublished } from "../../src/pipeline/locked-tables.ts";
import { relation, tableShape } from "../support/rows/batch-fixture.ts";

const published = (name: string) => tableShape(relation(name, [["id", 23, "integer"]]));
const unpublished = (name: string) => ({
  ...published(name),
  coverage: { excluded: ["secret"], isListed: false, isUnpublished: true },
});

test("once the source publishes, all tables that were read before count as published, and keep what else is known", () => {
  const tables = [unpublished("a"), published("b")];
  const now = asPublished(tables, null);
  expect(now.map(isUnpublished)).toEqual([false, false]);
  expect(now[0]).toEqual({ ...tables[0]!, coverage: { ...unpublished("a").coverage, isUnpublished: false } });
});

test("while a table is locked none does that did not before", () => {
  const tables = [unpublished("a")];
  const locked = new MillraceError("table_locked", "public.b is locked.");
  expect(asPublished(tables, locked)).toBe(tables);
});
