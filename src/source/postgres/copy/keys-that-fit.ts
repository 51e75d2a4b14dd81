// Finds the keys that are values of the source's types. A sink whose column has another type may have rows with keys that the source could not
// have, and the source's server would refuse a query that names one.

import type { Client } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import type { TableShape } from "../../../change/relation.ts";
import { sqlStateOf } from "../../../connection/postgres-failure.ts";

/** In no transaction. Asks again for each half where the server refuses one of several keys: it does not say which. */
export async function keysThatFit(
  client: Client,
  table: TableShape,
  keys: readonly RowKey[],
): Promise<readonly RowKey[]> {
  if (keys.length === 0 || (await doAllFit(client, table, keys))) return keys;
  if (keys.length === 1) return [];
  const half = keys.length >> 1;
  const first = await keysThatFit(client, table, keys.slice(0, half));
  return [...first, ...(await keysThatFit(client, table, keys.slice(half)))];
}

/** Classes of errors: of data, and of constraints, which a domain has. */
const refusing = /^2[23]/;

async function doAllFit(client: Client, { relation }: TableShape, keys: readonly RowKey[]): Promise<boolean> {
  const values = relation.key.map(
    (at, i) => `count((given.value->>${i})::${relation.columns[at]!.typeName})`,
  );
  try {
    // As a parameter, so that the keys are in no statement's text.
    await client.query(`select ${values.join(", ")} from json_array_elements($1::json) as given(value)`, [
      JSON.stringify(keys),
    ]);
    return true;
  } catch (error) {
    if (refusing.test(sqlStateOf(error) ?? "")) return false;
    throw error;
  }
}
