// Recreates types at the sink that the source has recreated, or whose attributes were dropped or changed. The old type is renamed, and its
// columns keep their values until a copy brings values of the new type.
// https://www.postgresql.org/docs/current/sql-altertype.html

import { type Client, escapeIdentifier } from "pg";
import type { TypeDefinition, TypeKey } from "../../../change/type-definition.ts";
import { inSavepoint } from "../../../connection/in-savepoint.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { type ExistingType, formOf, isIncompatible, readExistingTypes } from "./existing-type.ts";
import { replacedTypePrefix } from "./replaced-type.ts";
import { recordMade } from "./type-claims.ts";
import { createTypeSql } from "./type-sql.ts";

/**
 * In the open transaction. Types that somebody else has created stay as they are, and so do those that cannot be created. Returns the qualified
 * names of replaced types, each before the types that use it.
 */
export async function replaceTypes(
  client: Client,
  connectorId: string,
  wanted: ReadonlyMap<string, TypeDefinition>,
  existing: ReadonlyMap<string, ExistingType>,
): Promise<readonly string[]> {
  const replaced: string[] = [];
  let there = existing;
  // A type comes after the types that it uses: it must be replaced if one of those is.
  for (const [key, definition] of wanted) {
    const type = there.get(key);
    if (!type?.isOurs || !isIncompatible(definition, type)) continue;
    if (!(await replaceType(client, connectorId, definition, type))) continue;
    replaced.push(key);
    there = await readExistingTypes(client, [...wanted.values()], connectorId);
  }
  return replaced;
}

async function replaceType(
  client: Client,
  connectorId: string,
  definition: TypeDefinition,
  before: ExistingType,
): Promise<boolean> {
  const replace = async () => {
    const { schema } = definition;
    const aside = { schema, name: `${replacedTypePrefix}${before.oid}` };
    await client.query(
      `alter ${before.kind === "domain" ? "domain" : "type"} ${sqlName(definition)} rename to ${escapeIdentifier(aside.name)}`,
    );
    await recordMade(client, connectorId, aside);
    await renameMultirange(client, before);
    await client.query(createTypeSql(definition));
    const [now] = (await readExistingTypes(client, [definition], connectorId)).values();
    // Two servers may print the same type differently.
    if (!now || formOf(now) === formOf(before)) throw new Error("the type is what it was");
  };
  // Otherwise the old type stays. If its columns refuse a value, that is reported.
  return await inSavepoint(client, replace).then(
    () => true,
    () => false,
  );
}

/**
 * A range's multirange type, and the functions that make values of it, keep their names where the range gets another one. They go with the range.
 * https://www.postgresql.org/docs/current/rangetypes.html
 */
async function renameMultirange(client: Client, { oid }: ExistingType): Promise<void> {
  const { rows } = await client.query<TypeKey & { readonly oid: number }>(
    "select t.oid::int8::float8 as oid, n.nspname as schema, t.typname as name from pg_range r " +
      "join pg_type t on t.oid = r.rngmultitypid join pg_namespace n on n.oid = t.typnamespace where r.rngtypid = $1",
    [oid],
  );
  for (const multirange of rows) {
    const aside = escapeIdentifier(`${replacedTypePrefix}${multirange.oid}`);
    const { rows: functions } = await client.query<{ signature: string }>(
      "select objid::regprocedure::text as signature from pg_depend where classid = 'pg_proc'::regclass " +
        "and refclassid = 'pg_type'::regclass and refobjid = any ($1::oid[]) and deptype = 'i'",
      [[oid, multirange.oid]],
    );
    for (const { signature } of functions)
      await client.query(`alter function ${signature} rename to ${aside}`);
    await client.query(`alter type ${sqlName(multirange)} rename to ${aside}`);
  }
}

const asideQuery = `
select type_schema as schema, type_name as name from millrace.made_type where starts_with(type_name, $1)`;

/** Drops renamed types that no column uses any more. In no transaction. */
export async function dropReplacedTypes(client: Client): Promise<void> {
  const { rows } = await client.query<TypeKey>(asideQuery, [replacedTypePrefix]);
  for (const type of rows) {
    // The server refuses to drop a type that is still in use.
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
