// Finds a relation at the sink that has a table's name and is not a table: rows cannot be written there, and no table can be created.
// https://www.postgresql.org/docs/current/catalog-pg-class.html (relkind)

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { MigrationRefused } from "../refusals/migration-refused.ts";
import type { TargetName } from "./target-name.ts";

/** By relkind: the SQL keyword after ALTER. A composite type is in pg_class as well. */
const kinds: Readonly<Record<string, string>> = {
  v: "view",
  m: "materialized view",
  S: "sequence",
  f: "foreign table",
  i: "index",
  I: "index",
  c: "type",
};

/** So short that a name with the suffix has at most 63 bytes, whatever its characters. */
const keptCharacters = 14;

/** Null: the name is free, or a table has it. */
export async function nameTaken(client: Client, target: TargetName): Promise<MigrationRefused | null> {
  const { rows } = await client.query<{ kind: string }>(
    "select relkind as kind from pg_class where oid = to_regclass($1)",
    [sqlName(target)],
  );
  const kind = kinds[rows[0]?.kind ?? ""];
  if (kind === undefined) return rows[0] ? null : await typeOfName(client, target);
  const aside = escapeIdentifier(
    `${[...target.name].slice(0, keptCharacters).join("")}_${kind.split(" ").join("_")}`,
  );
  return new MigrationRefused(
    `${qualifiedName(target)} at the sink is a${/^[aeiou]/.test(kind) ? "n" : ""} ${kind}, and rows are written to tables alone. Give it another name, or drop it.`,
    [`alter ${kind} ${sqlName(target)} rename to ${aside}`],
  );
}

/** A table has a type of its name, so that no other type may have it: https://www.postgresql.org/docs/current/catalog-pg-type.html (typrelid) */
async function typeOfName(client: Client, target: TargetName): Promise<MigrationRefused | null> {
  const { rowCount } = await client.query(
    "select from pg_type where oid = to_regtype($1) and typrelid = 0 and typelem = 0",
    [sqlName(target)],
  );
  if (rowCount === 0) return null;
  const text = `${qualifiedName(target)} at the sink is a type, and a table of that name would be one too. Rename one of them at the source, or exclude the table.`;
  return new MigrationRefused(text, []);
}
