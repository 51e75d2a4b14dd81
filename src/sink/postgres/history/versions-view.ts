// The view of a table's versions: each row as it was, from when until when. A version ends with the next change of its key, or with a TRUNCATE.

import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import { inSavepoint } from "../../../connection/in-savepoint.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { sqlList, type TargetName } from "../schema/target-name.ts";
import { versionsComment } from "./history-naming.ts";

export interface Versions {
  readonly history: TargetName;
  readonly view: TargetName;
  readonly columns: readonly string[];
  /** Not empty. */
  readonly key: readonly string[];
}

/**
 * `valid_from` is the latest time of commit of the key's changes so far, as a clock may be set back. A condition on the key reaches
 * the index: it goes through subqueries that divide their rows by it. Several changes in one transaction give versions of no duration.
 */
function versionsSql({ history, view, columns, key }: Versions): string {
  const table = sqlName(history);
  const place = (of: string) => `(${of}._sm_lsn, ${of}._sm_ordinal)`;
  const lastTruncated = (condition: string) =>
    `(select max(t._sm_committed_at) from ${table} t where t._sm_op = 't' and ${condition})`;
  // Names of the table's own may be any.
  const named = columns.map((name, i) => `h.${escapeIdentifier(name)} as v${i}`).join(", ");
  const passed = columns.map((_, i) => `v.v${i}`).join(", ");
  const values = columns.map((name, i) => `v.v${i} as ${escapeIdentifier(name)}`).join(", ");
  const keys = key.map((name) => `v.v${columns.indexOf(name)}`).join(", ");
  const isCut = `cut._sm_lsn is not null and (v.next_lsn is null or ${place("cut")} < (v.next_lsn, v.next_ordinal))`;
  return `create view ${sqlName(view)} as
select ${values}, v.valid_from,
  case when ${isCut} then greatest(v.valid_from, ${lastTruncated(`${place("t")} <= ${place("cut")}`)})
    else coalesce(v.next_from, 'infinity') end as valid_to,
  cut._sm_lsn is null and v.next_lsn is null as is_current
from (select ${passed}, v._sm_op, v._sm_lsn, v._sm_ordinal, v.valid_from, lead(v._sm_lsn) over following as next_lsn,
    lead(v._sm_ordinal) over following as next_ordinal, lead(v.valid_from) over following as next_from
  from (select ${named}, h._sm_op, h._sm_lsn, h._sm_ordinal,
      max(greatest(h._sm_committed_at, ${lastTruncated(`${place("t")} < ${place("h")}`)}))
        over (partition by ${sqlList(key, "h.")} order by h._sm_lsn, h._sm_ordinal) as valid_from
    from ${table} h where h._sm_op <> 't') v
  window following as (partition by ${keys} order by v._sm_lsn, v._sm_ordinal)) v
left join lateral (select t._sm_lsn, t._sm_ordinal from ${table} t
  where t._sm_op = 't' and ${place("t")} > ${place("v")} order by t._sm_lsn, t._sm_ordinal limit 1) cut on true
where v._sm_op <> 'd'`;
}

const viewColumns: readonly string[] = ["valid_from", "valid_to", "is_current"];

/** Privileges on a view, as SQL around its name. */
export type Grants = readonly { readonly before: string; readonly behind: string }[];

const knownViewQuery = `
select c.relkind = 'v' and obj_description(c.oid, 'pg_class') = $2 as "isOurs",
  (select coalesce(json_agg(json_build_object('before', 'grant ' || g.privilege_type || ' on ', 'behind', ' to ' ||
      case when g.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end ||
      case when g.is_grantable then ' with grant option' else '' end)), '[]')
    from aclexplode(c.relacl) g where g.grantee <> c.relowner) as grants
from pg_class c where c.oid = to_regclass($1)`;

interface KnownView {
  readonly isOurs: boolean;
  readonly grants: Grants;
}

async function knownView(client: Client, view: TargetName): Promise<KnownView | null> {
  const { rows } = await client.query<KnownView>(knownViewQuery, [sqlName(view), versionsComment]);
  return rows[0] ?? null;
}

/**
 * In the open transaction: makes the view anew, with the privileges that it had, or with those of one that was dropped for it. Returns why it could
 * not be made; null: it is made. Then an earlier one stays.
 */
export async function makeVersions(
  client: Client,
  versions: Versions,
  dropped: Grants = [],
): Promise<string | null> {
  const name = sqlName(versions.view);
  const known = await knownView(client, versions.view);
  if (known && !known.isOurs) return "something else has its name";
  const own = versions.columns.find((name) => viewColumns.includes(name));
  if (own !== undefined)
    return `the table has a column ${own}, which the view has of its own: rename or exclude it`;
  return await orUndone(client, async () => {
    if (known) await client.query(`drop view ${name}`);
    await client.query(versionsSql(versions));
    await client.query(`comment on view ${name} is ${escapeLiteral(versionsComment)}`);
    for (const { before, behind } of known?.grants ?? dropped)
      await client.query(`${before}${name}${behind}`);
  });
}

/** In the open transaction: drops the view if it is ours and nothing uses it. Returns the privileges on it. */
export async function dropVersions(client: Client, view: TargetName): Promise<Grants> {
  const known = await knownView(client, view);
  if (!known?.isOurs) return [];
  const failure = await orUndone(client, () => client.query(`drop view ${sqlName(view)}`));
  return failure === null ? known.grants : [];
}

/** Returns why the action failed, and undoes what it did; null: it succeeded. */
async function orUndone(client: Client, action: () => Promise<unknown>): Promise<string | null> {
  return await inSavepoint(client, action).then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
}
