// The publications that decide what the server sends. The service makes its own unless the connector names one:
// one for tables whose rows can be identified, and one that carries only inserts for those without a replica identity,
// because publishing updates of such a table would make the application's own UPDATE and DELETE fail.
// https://www.postgresql.org/docs/current/logical-replication-publication.html

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { isIdentified, type TableShape } from "../../change/relation.ts";
import { sqlName } from "../../connection/sql-name.ts";
import { describePublicationDenial } from "./privileges.ts";

/** Names of the connector's own publications. No connector id can contain the `$` of the second. */
export function ownPublications(base: string): { identified: string; appendOnly: string } {
  return { identified: base, appendOnly: `${base}$append` };
}

/** Makes the connector's own publications hold exactly `tables`. Returns their names. */
export async function reconcilePublications(
  client: Client,
  base: string,
  tables: readonly TableShape[],
  viaRoot: boolean,
): Promise<readonly string[]> {
  const names = ownPublications(base);
  const identified = tables.filter(({ relation }) => isIdentified(relation));
  const appendOnly = tables.filter(({ relation }) => !isIdentified(relation));
  // In one transaction: a table that moves from one to the other is in both or neither for no change at all.
  try {
    await client.query("begin");
    await reconcile(client, names.identified, identified, "insert, update, delete, truncate", viaRoot);
    await reconcile(client, names.appendOnly, appendOnly, "insert, truncate", viaRoot);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    const relations = tables.map(({ relation }) => relation);
    throw await describePublicationDenial(client, error, relations, viaRoot);
  }
  return [names.identified, names.appendOnly];
}

export async function dropOwnPublications(client: Client, base: string): Promise<void> {
  const names = ownPublications(base);
  await client.query(
    `drop publication if exists ${escapeIdentifier(names.identified)}, ${escapeIdentifier(names.appendOnly)}`,
  );
}

interface ExistingTable {
  schema: string;
  name: string;
}

const membersQuery = `
select n.nspname as schema, c.relname as name
from pg_publication_rel r
join pg_publication p on p.oid = r.prpubid
join pg_class c on c.oid = r.prrelid
join pg_namespace n on n.oid = c.relnamespace
where p.pubname = $1`;

async function reconcile(
  client: Client,
  name: string,
  tables: readonly TableShape[],
  publish: string,
  viaRoot: boolean,
): Promise<void> {
  const wanted = tables.map(({ relation }) => sqlName(relation)).sort();
  const options = `publish = ${escapeLiteral(publish)}, publish_via_partition_root = ${viaRoot}`;
  const { rowCount } = await client.query("select from pg_publication where pubname = $1", [name]);
  if (!rowCount) {
    const list = wanted.length > 0 ? `for table ${wanted.join(", ")}` : "";
    await client.query(`create publication ${escapeIdentifier(name)} ${list} with (${options})`);
    return;
  }
  await client.query(`alter publication ${escapeIdentifier(name)} set (${options})`);
  const { rows } = await client.query<ExistingTable>(membersQuery, [name]);
  const existing = rows.map(sqlName).sort();
  const surplus = existing.filter((table) => !wanted.includes(table));
  const lacking = wanted.filter((table) => !existing.includes(table));
  const alter = `alter publication ${escapeIdentifier(name)}`;
  if (surplus.length > 0) await client.query(`${alter} drop table ${surplus.join(", ")}`);
  if (lacking.length > 0) await client.query(`${alter} add table ${lacking.join(", ")}`);
}
