// What has a table's name at the sink and is no table: rows cannot be written there, and no table made beside it.
// https://www.postgresql.org/docs/current/catalog-pg-class.html (relkind)

import { type Client, escapeIdentifier } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { MigrationRefused } from "./migration-refused.ts";
import type { TargetName } from "./target-name.ts";

/** As SQL behind ALTER. A composite type has an entry among the relations as well. */
const kinds: Readonly<Record<string, string>> = {
  v: "view",
  m: "materialized view",
  S: "sequence",
  f: "foreign table",
  i: "index",
  I: "index",
  c: "type",
};

/** With the suffix, no more than the 63 bytes of a name, whatever its characters. */
const keptCharacters = 14;

/** Null: nothing has the name, or a table has. */
export async function nameTaken(client: Client, target: TargetName): Promise<MigrationRefused | null> {
  const { rows } = await client.query<{ kind: string }>(
    "select relkind as kind from pg_class where oid = to_regclass($1)",
    [sqlName(target)],
  );
  const kind = kinds[rows[0]?.kind ?? ""];
  if (kind === undefined) return null;
  const aside = escapeIdentifier(
    `${[...target.name].slice(0, keptCharacters).join("")}_${kind.split(" ").join("_")}`,
  );
  return new MigrationRefused(
    `${qualifiedName(target)} at the sink is a${/^[aeiou]/.test(kind) ? "n" : ""} ${kind}, and rows are written to tables alone. Give it another name, or drop it.`,
    [`alter ${kind} ${sqlName(target)} rename to ${aside}`],
  );
}
