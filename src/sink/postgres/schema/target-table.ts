// A target as the sink's catalog describes it.

import { type Client, escapeLiteral } from "pg";
import { qualifiedName, type Relation } from "../../../change/relation.ts";
import { BinaryLayouts } from "../../../connection/binary-layout.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import {
  type GeneratedRow,
  generatedSql,
  readGenerated,
  type TargetGenerated,
} from "../generated/computed-column.ts";
import type { ColumnWidth } from "./row-width.ts";
import type { TargetName } from "./target-name.ts";

export interface TargetColumn extends ColumnWidth {
  readonly name: string;
  readonly typeOid: number;
  /** As `format_type` prints it with an empty search_path. */
  readonly typeName: string;
  /** Comparable with the source's: types of equal layouts have the same binary values. */
  readonly binaryLayout: string | null;
  /** The type as SQL, or a domain's base type, without a modifier and without constraints. */
  readonly plainType: string;
  readonly isDomain: boolean;
  readonly notNull: boolean;
  readonly generated: boolean;
  /** Null: it is not generated. */
  readonly generatedAs: TargetGenerated | null;
  /** GENERATED ALWAYS AS IDENTITY: INSERT and COPY may set it, UPDATE may not. */
  readonly isFixed: boolean;
  readonly hasDefault: boolean;
}

export interface TargetTable {
  readonly target: TargetName;
  readonly oid: number;
  /** OIDs of the tables that its foreign keys refer to; empty if this session has switched foreign keys off. */
  readonly refersTo: readonly number[];
  /** Foreign keys that are in force for this session refer to it. */
  readonly isReferred: boolean;
  /** Such a foreign key changes rows of other tables with this one's: CASCADE, SET NULL or SET DEFAULT. */
  readonly hasReferentialActions: boolean;
  /** It has deferrable constraints that this session would not check, and no trigger, rule or foreign key that must stay off. */
  readonly hasLateChecks: boolean;
  /** Triggers and rules that this session fires. */
  readonly firing: readonly string[];
  /**
   * The table's own rows, as SQL after FROM, UPDATE and TRUNCATE. ONLY excludes child tables, which are tables of their own at the source. A
   * partitioned table goes without ONLY, as all its rows are in partitions.
   */
  readonly ownRows: string;
  readonly columns: readonly TargetColumn[];
  readonly uniqueKeys: readonly UniqueKey[];
  /** It is the history of another table. */
  readonly isHistory: boolean;
}

type CatalogColumn = Omit<TargetColumn, "binaryLayout" | "generatedAs"> & {
  readonly generatedAs: GeneratedRow | null;
};

interface TargetRow {
  /** The index in the list of targets, from 1. */
  place: string;
  oid: number;
  isPartitioned: boolean;
  refersTo: number[];
  /** What foreign keys that refer to it do on delete and on update, as pg_constraint has it; null: there is none in force. */
  actions: string | null;
  hasLateChecks: boolean;
  firing: string[];
  isHistory: boolean;
  columns: CatalogColumn[];
  keys: UniqueKey[];
}

/** A unique index. */
export interface UniqueKey {
  readonly name: string;
  readonly isPrimary: boolean;
  /** Millrace has made it, and may change it as the source's key changes. */
  readonly isOurs: boolean;
  /** It is WITHOUT OVERLAPS (from version 18 on): its operators find other rows than those of equal keys. */
  readonly isOfOverlaps: boolean;
  readonly columns: readonly KeyColumn[];
}

/** The comment that marks a table as the history of another one. */
export const historyComment = "made by millrace: every change of a table, never rewritten";

/** The comment on the index of a key that millrace has made: it identifies the key, whatever its name. */
export const ownKeyComment = "made by millrace: follows the key at the source";

export interface KeyColumn {
  readonly column: string;
  /** The equality operator that the index supports, as SQL. */
  readonly operator: string;
  /** The less-than operator of the index's order, as SQL; null: there is none. */
  readonly before: string | null;
  /** Different texts may be equal in the index. */
  readonly isLoose: boolean;
  /** A domain's base type, as SQL; null: no domain. Enum operators need a cast to it. */
  readonly comparedAs: string | null;
}

/** SQL for the name of `type`, a row of pg_type, or of a domain's base type. */
const plainType = (type: string) => `(
  select quote_ident(n.nspname) || '.' || quote_ident(b.typname) from pg_type b join pg_namespace n on n.oid = b.typnamespace
  where b.oid = case when ${type}.typtype <> 'd' then ${type}.oid else (
    with recursive under as (
      select ${type}.typbasetype as oid
      union all select u.typbasetype from under join pg_type u on u.oid = under.oid where u.typtype = 'd')
    select u.oid from under join pg_type u on u.oid = under.oid and u.typtype <> 'd') end)`;

/** SQL for the operator of class `k.opclass` with this B-tree strategy number. A subquery: a join would take long to plan. */
const operatorOf = (strategy: number) => `(
  select 'operator(' || quote_ident(n.nspname) || '.' || o.oprname || ')' from pg_opclass oc
  join pg_amop l on l.amopfamily = oc.opcfamily and l.amopstrategy = ${strategy}
    and l.amoplefttype = oc.opcintype and l.amoprighttype = oc.opcintype
  join pg_operator o on o.oid = l.amopopr join pg_namespace n on n.oid = o.oprnamespace
  where oc.oid = k.opclass)`;

/** Of the session: a statement without parameters is planned once, and to plan this one takes many times what it takes to run. */
const targetsSetting = "millrace.targets";

const targetQuery = `
select wanted.place, c.oid, c.relkind = 'p' as "isPartitioned", coalesce(obj_description(c.oid, 'pg_class') = ${escapeLiteral(historyComment)}, false) as "isHistory",
  current_setting('session_replication_role') = 'replica' and c.relkind = 'r'
    and exists (select from pg_index where indrelid = c.oid and not indimmediate)
    and not exists (select from pg_constraint where c.oid in (conrelid, confrelid) and contype = 'f')
    and not exists (select from pg_trigger where tgrelid = c.oid and not tgisinternal and tgenabled in ('O', 'R'))
    and not exists (select from pg_rewrite where ev_class = c.oid and ev_enabled in ('O', 'R')) as "hasLateChecks",
  (select coalesce(json_agg(own.name order by own.name), '[]') from (
      select tgname as name, tgenabled as enabled from pg_trigger where tgrelid = c.oid and not tgisinternal
      union all select rulename, ev_enabled from pg_rewrite where ev_class = c.oid and ev_type <> '1') own
    where own.enabled in ('A', case when current_setting('session_replication_role') = 'replica' then 'R' else 'O' end)) as firing,
  (select string_agg(concat(confdeltype, confupdtype), '') from pg_constraint where confrelid = c.oid and contype = 'f'
    and current_setting('session_replication_role') <> 'replica') as actions,
  (select coalesce(json_agg(distinct confrelid::int8), '[]') from pg_constraint where conrelid = c.oid and contype = 'f'
    and confrelid <> c.oid and current_setting('session_replication_role') <> 'replica') as "refersTo",
  (select coalesce(json_agg(json_build_object(
      'name', a.attname, 'typeOid', a.atttypid::int8, 'typeName', format_type(a.atttypid, a.atttypmod),
      'length', t.typlen, 'alignment', t.typalign, 'storage', t.typstorage,
      'plainType', ${plainType("t")}, 'isDomain', t.typtype = 'd',
      'notNull', a.attnotnull, 'generated', a.attgenerated <> '', 'generatedAs', ${generatedSql}, 'isFixed', a.attidentity = 'a', 'hasDefault', a.atthasdef or a.attidentity <> '')
      order by a.attnum), '[]')
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    left join pg_attrdef d on a.attgenerated <> '' and d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select coalesce(json_agg(json_build_object('name', (select relname from pg_class where oid = i.indexrelid),
      'isPrimary', i.indisprimary, 'isOurs', coalesce(obj_description(i.indexrelid, 'pg_class') = ${escapeLiteral(ownKeyComment)}, false),
      'isOfOverlaps', i.indisexclusion,
      'columns', keys.columns) order by i.indexrelid), '[]') from pg_index i cross join lateral (
      select json_agg(json_build_object('column', a.attname,
        'isLoose', t.typname = 'citext' or exists (select from pg_collation where oid = k.collid and not collisdeterministic),
        'operator', ${operatorOf(3)}, 'before', ${operatorOf(1)},
        'comparedAs', case when t.typtype = 'd' then ${plainType("t")} end) order by k.place) as columns
      from unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[]) with ordinality as k(attnum, opclass, collid, place)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
      join pg_type t on t.oid = a.atttypid
      where k.place <= i.indnkeyatts) keys
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null) as keys
from json_array_elements_text(current_setting('${targetsSetting}')::json) with ordinality as wanted(name, place)
join pg_class c on c.oid = to_regclass(wanted.name) and c.relkind in ('r', 'p')`;

/** How many tables one query reads: its result is in memory as a whole. */
const readAtOnce = 500;

/** Null: there is no such table. The client's search_path must be empty. */
export async function readTargetTable(client: Client, target: TargetName): Promise<TargetTable | null> {
  const [table] = await readTargetTables(client, [target]);
  return table ?? null;
}

/** In the order of `targets`; null for one that is not there. The client's search_path must be empty. */
export async function readTargetTables(
  client: Client,
  targets: readonly TargetName[],
): Promise<readonly (TargetTable | null)[]> {
  const tables: (TargetTable | null)[] = targets.map(() => null);
  for (let from = 0; from < targets.length; from += readAtOnce) {
    const asked = targets.slice(from, from + readAtOnce);
    const names = JSON.stringify(asked.map(sqlName));
    await client.query("select set_config($1, $2, false)", [targetsSetting, names]);
    // Named: it is parsed and planned once per session.
    const { rows } = await client.query<TargetRow>({ name: "millrace_target_tables", text: targetQuery });
    const oids = rows.flatMap(({ columns }) => columns.map(({ typeOid }) => typeOid));
    const layouts = await BinaryLayouts.read(client, oids);
    for (const row of rows) {
      const i = Number(row.place) - 1;
      tables[from + i] = targetTable(asked[i]!, row, layouts);
    }
  }
  return tables;
}

function targetTable(target: TargetName, row: TargetRow, layouts: BinaryLayouts): TargetTable {
  const columns = row.columns.map((column) => ({
    ...column,
    generatedAs: column.generatedAs && readGenerated(column.generatedAs),
    binaryLayout: layouts.of(column.typeOid),
  }));
  const ownRows = row.isPartitioned ? sqlName(target) : `only ${sqlName(target)}`;
  const { oid, refersTo, actions, hasLateChecks, firing, isHistory, keys: uniqueKeys } = row;
  return {
    target,
    oid,
    refersTo,
    isReferred: actions !== null,
    hasReferentialActions: /[cnd]/.test(actions ?? ""),
    hasLateChecks,
    firing,
    ownRows,
    columns,
    uniqueKeys,
    isHistory,
  };
}

/** The unique index that finds a row by the relation's key; undefined: there is none. */
export function keyIndexOf(table: TargetTable, relation: Relation): UniqueKey | undefined {
  const key = relation.key.map((i) => relation.columns[i]?.name ?? "");
  return table.uniqueKeys.find(
    ({ columns, isOfOverlaps }) => !isOfOverlaps && columns.every(({ column }) => key.includes(column)),
  );
}

/** Also partial ones, those of expressions, and exclusion constraints: `uniqueKeys` has none of these. */
export async function hasOtherUniqueIndex(
  client: Client,
  target: TargetTable,
  relation: Relation,
): Promise<boolean> {
  const { rowCount } = await client.query(
    `select from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = $1
      and (i.indisunique or i.indisexclusion) and c.relname <> $2`,
    [target.oid, keyIndexOf(target, relation)?.name ?? ""],
  );
  return rowCount !== 0;
}

/** The condition that two expressions are the same key, as the key's index compares them if there is one. */
export function equalSql(column: KeyColumn | undefined, left: string, right: string): string {
  const { operator, comparedAs } = column ?? { operator: "=", comparedAs: null };
  const cast = comparedAs === null ? "" : `::${comparedAs}`;
  return `${left}${cast} ${operator} ${right}${cast}`;
}

/** Somebody has dropped the target, with rows that no change will bring. */
export function tableMissing(target: TargetName): MillraceError {
  return new MillraceError(
    "sink_table_missing",
    `Table ${qualifiedName(target)} is no longer at the sink: it is made and copied again.`,
  );
}
