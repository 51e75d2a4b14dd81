// Reads keys that people give as the values of a table's key columns. Postgres decides what fits: its casts are tried, and whatever a cast would
// cut or round to make it fit is refused.

import type { Client } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { type Column, keyNames, qualifiedName, type TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";

/** Class 22: data exception. 42846: there is no cast. 23514: a domain's constraint. */
const doesNotFit = /^(22|42846|23514)/;

/** Throws `invalid_request`. */
export async function readGivenKeys(
  client: Client,
  table: TableShape,
  texts: readonly RowKey[],
): Promise<readonly RowKey[]> {
  const { relation } = table;
  const columns = relation.key.map((at) => relation.columns[at]!);
  const names = await unboundedTypes(client, columns);
  const read = (keys: readonly RowKey[], of: readonly number[]) =>
    readAll(
      client,
      of.map((at) => ({ column: columns[at]!, unbounded: names[at]! })),
      keys,
    );
  const all = columns.map((_, at) => at);
  const keys = await read(texts, all);
  if (keys) return keys;
  const first = await firstOf(
    texts.length,
    async (count) => (await read(texts.slice(0, count), all)) !== null,
  );
  const key = texts[first] ?? [];
  for (const at of all) {
    if ((await read([[key[at] ?? ""]], [at])) === null) throw unfit(table, first, at);
  }
  throw unfit(table, first, 0);
}

function unfit(table: TableShape, key: number, column: number): MillraceError {
  const { relation } = table;
  const { name, typeName } = relation.columns[relation.key[column]!]!;
  return new MillraceError(
    "invalid_request",
    `keys[${key}].${name}: the value does not fit the type ${typeName} of this column. The key of ${qualifiedName(relation)} is (${keyNames(relation).join(", ")}).`,
  );
}

/** The place of the first one without which those before it fit. */
async function firstOf(count: number, doFit: (count: number) => Promise<boolean>): Promise<number> {
  let [fit, unfit] = [0, count];
  while (unfit - fit > 1) {
    const middle = (fit + unfit) >> 1;
    if (await doFit(middle)) fit = middle;
    else unfit = middle;
  }
  return fit;
}

/** The types without a length or a precision. */
async function unboundedTypes(client: Client, columns: readonly Column[]): Promise<readonly string[]> {
  const oids = columns.map((column) => (column.domainBase ?? column).typeOid);
  const { rows } = await client.query<{ name: string }>(
    "select format_type(oid, -1) as name from unnest($1::oid[]) with ordinality as types(oid, place) order by place",
    [oids],
  );
  return rows.map(({ name }) => name);
}

interface ReadColumn {
  readonly column: Column;
  readonly unbounded: string;
}

/** Null: one of them does not fit. */
async function readAll(
  client: Client,
  columns: readonly ReadColumn[],
  keys: readonly RowKey[],
): Promise<readonly RowKey[] | null> {
  // The keys are a parameter, so that no statement's text has them.
  const given = (at: number) => `(given.value->>${at})`;
  const texts = columns.map(({ column }, at) => `format('%s', ${given(at)}::${column.typeName})`);
  const isKept = columns.flatMap(({ column, unbounded }, at) =>
    (column.domainBase ?? column).typmod === -1
      ? []
      : [`${given(at)}::${unbounded} = ${given(at)}::${column.typeName}`],
  );
  try {
    const { rows } = await client.query<{ key: string[]; fits: boolean }>(
      `select json_build_array(${texts.join(", ")}) as key, ${["true", ...isKept].join(" and ")} as fits
       from json_array_elements($1::json) with ordinality as given(value, place) order by place`,
      [JSON.stringify(keys)],
    );
    return rows.every(({ fits }) => fits) ? rows.map(({ key }) => key) : null;
  } catch (error) {
    if (doesNotFit.test(sqlStateOf(error) ?? "")) return null;
    throw error;
  }
}
