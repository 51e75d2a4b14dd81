// Makes types anew that the source has made anew under their names, or whose attributes have gone or are others. The old type goes
// aside, and the columns that have it keep their values until the copy that brings those of the new one.
// https://www.postgresql.org/docs/current/sql-altertype.html

import { type Client, escapeIdentifier } from "pg";
import type { TypeDefinition, TypeKey } from "../../../change/type-definition.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { type ExistingType, formOf, isMisfit, readExistingTypes } from "./existing-type.ts";
import { replacedTypePrefix } from "./replaced-type.ts";
import { createTypeSql } from "./type-sql.ts";

const failed = "millrace_replaced";

/**
 * In the open transaction. Types that this service has not made stay as they are, and so do those that cannot be made. Returns the
 * qualified names of those that were replaced: each before those that are made of it.
 */
export async function replaceTypes(
  client: Client,
  wanted: ReadonlyMap<string, TypeDefinition>,
  existing: ReadonlyMap<string, ExistingType>,
): Promise<readonly string[]> {
  const replaced: string[] = [];
  let there = existing;
  // Each stands behind those that it is made of: a type is another when one of those is.
  for (const [key, definition] of wanted) {
    const type = there.get(key);
    if (!type?.isOurs || !isMisfit(definition, type)) continue;
    if (!(await replaceType(client, definition, type))) continue;
    replaced.push(key);
    there = await readExistingTypes(client, [...wanted.values()]);
  }
  return replaced;
}

async function replaceType(
  client: Client,
  definition: TypeDefinition,
  before: ExistingType,
): Promise<boolean> {
  await client.query(`savepoint ${failed}`);
  try {
    const { schema } = definition;
    const aside = { schema, name: `${replacedTypePrefix}${before.oid}` };
    await client.query(
      `alter ${before.kind === "domain" ? "domain" : "type"} ${sqlName(definition)} rename to ${escapeIdentifier(aside.name)}`,
    );
    await client.query("insert into millrace.made_type values ($1, $2) on conflict do nothing", [
      schema,
      aside.name,
    ]);
    await client.query(createTypeSql(definition));
    const [now] = (await readExistingTypes(client, [definition])).values();
    // What is printed otherwise by two servers may be the same all the same.
    if (now && formOf(now) !== formOf(before)) {
      await client.query(`release savepoint ${failed}`);
      return true;
    }
  } catch {
    // It stays, and what its columns refuse is told of.
  }
  await client.query(`rollback to savepoint ${failed}; release savepoint ${failed}`);
  return false;
}

const asideQuery = `
select type_schema as schema, type_name as name from millrace.made_type where starts_with(type_name, $1)`;

/** Drops types that went aside and that no column has any more. In no transaction. */
export async function dropReplacedTypes(client: Client): Promise<void> {
  const { rows } = await client.query<TypeKey>(asideQuery, [replacedTypePrefix]);
  for (const type of rows) {
    // One that is in use still is refused.
    const isGone = await client.query(`drop type if exists ${sqlName(type)}`).then(
      () => true,
      () => false,
    );
    if (isGone)
      await client.query("delete from millrace.made_type where type_schema = $1 and type_name = $2", [
        type.schema,
        type.name,
      ]);
  }
}
