// What a copy that was made beside the stream comes to: the rows of the sink's table that are others than the copied ones. They are listed
// beside the stream, and written piece by piece between its batches. A row that the stream has not touched is the same all the time,
// at the source and at the sink; one that it has touched is right already, or owed.

import { type Client, escapeIdentifier } from "pg";
import type { RowKey } from "../../../change/copy-part.ts";
import { isSystemColumn, type Relation } from "../../../change/relation.ts";
import { sqlName } from "../../../connection/sql-name.ts";
import { withLateChecks } from "../apply/late-checks.ts";
import { sqlList } from "../schema/target-name.ts";
import { equalSql, keyIndexOf, type TargetTable } from "../schema/target-table.ts";
import type { BesideTables } from "./beside-tables.ts";

/** What is the matter with a row. The list begins with the highest: a row may be missing that one which differs is to refer to. */
const kind = { extra: 0, differs: 1, missing: 2 } as const;

/** That are asked for at once. */
const maxOwed = 10_000;

export interface Mending {
  readonly tables: BesideTables;
  readonly target: TargetTable;
  readonly relation: Relation;
  /** Rows that were not copied are removed. */
  readonly replaces: boolean;
}

/** Why rows of a table cannot be written one after the other. */
export interface RowTies {
  /** Another constraint than the key tells rows apart. */
  readonly areApart: boolean;
  /** Rows refer to others of the table, by a foreign key that is in force. */
  readonly areReferred: boolean;
}

export async function readRowTies(client: Client, { target, relation }: Mending): Promise<RowTies> {
  const { rows } = await client.query<RowTies>(
    `select exists (select from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = $1
        and (i.indisunique or i.indisexclusion) and c.relname <> $2) as "areApart",
      current_setting('session_replication_role') <> 'replica' and exists (
        select from pg_constraint where contype = 'f' and conrelid = $1 and confrelid = $1) as "areReferred"`,
    [target.oid, keyIndexOf(target, relation)?.name ?? ""],
  );
  return rows[0]!;
}

/** Pages of the copied rows, or of the target: what is extra in it. */
export interface ListedPages {
  readonly of: "copied" | "target";
  readonly from: number;
  readonly to: number;
}

export interface Listed {
  readonly rows: number;
  /** All of them: nothing differs or is extra. */
  readonly areMissing: boolean;
  /** There are pages behind these. */
  readonly isMore: boolean;
}

/** In the open transaction. By it copied rows are found; an earlier attempt may have made it. */
export async function indexRows(
  client: Client,
  { tables: { rows }, relation }: Pick<Mending, "tables" | "relation">,
): Promise<void> {
  const names = relation.key.map((i) => relation.columns[i]!.name);
  await client.query(
    `create index if not exists ${escapeIdentifier(`${rows.name}_key`)} on ${sqlName(rows)} (${sqlList(names)})`,
  );
}

/** In the open transaction, beside the stream; or, of some pages, between two batches. What was listed before is forgotten. */
export async function listRows(client: Client, mending: Mending, pages: ListedPages | null): Promise<Listed> {
  const { tables, target, relation, replaces } = mending;
  const { rows, touched, mend } = tables;
  const names = relation.key.map((i) => relation.columns[i]!.name);
  await indexRows(client, mending);
  await client.query(`drop table if exists ${sqlName(mend)}`);
  if (pages === null) await client.query(`analyze ${sqlName(rows)}, ${sqlName(touched)}`);
  else await client.query("set local enable_hashjoin = off; set local enable_mergejoin = off");
  const among = (of: "s" | "t") =>
    pages === null ? "" : ` and ${of}.ctid >= '(${pages.from},0)' and ${of}.ctid < '(${pages.to},0)'`;
  const keysOf = (from: string) =>
    names.map((name, i) => `${from}.${escapeIdentifier(name)} as k${i}`).join(", ");
  const sides = `${sqlName(rows)} s left join ${target.ownRows} t on ${match(mending, "t", "s")}`;
  const found =
    `select case when t.tableoid is null then ${kind.missing} else ${kind.differs} end as kind, ${keysOf("s")} from ${sides} ` +
    `where (t.tableoid is null or not ${areSame(ownNames(relation))}${lacksOrigin(relation)}) ` +
    `and not exists (select from ${sqlName(touched)} k where ${match(mending, "s", "k")})${among("s")}`;
  const extra =
    `select ${kind.extra} as kind, ${keysOf("t")} from ${target.ownRows} t ` +
    `where not exists (select from ${sqlName(rows)} s where ${match(mending, "t", "s")}) ` +
    `and not exists (select from ${sqlName(touched)} k where ${match(mending, "t", "k")})${among("t")}`;
  const all = replaces ? `${found} union all ${extra}` : found;
  const listed = pages === null ? all : pages.of === "target" ? extra : found;
  await client.query(
    `create unlogged table ${sqlName(mend)} as select row_number() over (order by kind desc) as n, m.* from (${listed}) m`,
  );
  await client.query(`alter table ${sqlName(mend)} add primary key (n)`);
  await client.query(`analyze ${sqlName(mend)}`);
  const { rows: counted } = await client.query<Listed>(
    `select count(*)::float8 as rows, coalesce(min(kind), ${kind.missing}) = ${kind.missing} as "areMissing", ` +
      `$1::int8 < pg_relation_size($2::regclass) / current_setting('block_size')::int8 as "isMore" from ${sqlName(mend)}`,
    [pages?.to ?? 0, pages?.of === "target" ? String(target.oid) : sqlName(rows)],
  );
  return counted[0]!;
}

/**
 * In the open transaction, between two batches: rows of the list behind `after`, up to `to`. Each stays where it is: others may refer to
 * it. For the same reason rows come before others are changed, and go last, unless values of theirs have to be free for others.
 */
export async function mendRows(
  client: Client,
  mending: Mending,
  after: number,
  to: number,
  { areApart }: RowTies,
): Promise<void> {
  const { tables, target, relation } = mending;
  const listed = (what: number) => listedSql(mending, what, after, to);
  const names = relation.columns.map(({ name }) => name);
  await client.query("set local enable_hashjoin = off; set local enable_mergejoin = off");
  await withLateChecks(client, target, async () => {
    const remove = () =>
      client.query(
        `delete from ${target.ownRows} t using ${listed(kind.extra)} where ${match(mending, "t", "l")}`,
      );
    const insert = () => {
      const from = `${listed(kind.missing)}, ${sqlName(tables.rows)} s where ${match(mending, "s", "l")}`;
      return client.query(insertSql(mending, names, from));
    };
    await (areApart ? remove() : insert());
    const set = names
      .filter((name) => !target.columns.some((column) => column.name === name && column.isFixed))
      .map((name) => `${escapeIdentifier(name)} = s.${escapeIdentifier(name)}`);
    if (set.length > 0) {
      await client.query(
        `update ${target.ownRows} t set ${set.join(", ")} from ${listed(kind.differs)}, ${sqlName(tables.rows)} s ` +
          `where ${match(mending, "t", "l")} and ${match(mending, "s", "l")}`,
      );
    }
    await (areApart ? insert() : remove());
  });
}

/** As `mendRows`, for all of the list, where rows take values from each other and nothing refers to them: what is to change is taken away first. */
export async function mendAllRows(client: Client, mending: Mending, count: number): Promise<void> {
  const { tables, target, relation } = mending;
  const listed = (what: number) => listedSql(mending, what, 0, count);
  const names = relation.columns.map(({ name }) => name);
  const extras = target.columns
    .filter(({ name, generated }) => !generated && !names.includes(name))
    .map(({ name }) => name);
  const rows = `${sqlName(tables.rows)} s`;
  // What somebody else has added to the rows goes with them.
  const added = extras.map((name) => `, t.${escapeIdentifier(name)}`).join("");
  await withLateChecks(client, target, async () => {
    await client.query(
      `create temporary table millrace_mended on commit drop as select s.*${added} from ${listed(kind.differs)}, ${rows}, ` +
        `${target.ownRows} t where ${match(mending, "s", "l")} and ${match(mending, "t", "l")}`,
    );
    for (const what of [kind.extra, kind.differs]) {
      await client.query(
        `delete from ${target.ownRows} t using ${listed(what)} where ${match(mending, "t", "l")}`,
      );
    }
    await client.query(insertSql(mending, [...names, ...extras], "pg_temp.millrace_mended s"));
    await client.query(
      insertSql(mending, names, `${listed(kind.missing)}, ${rows} where ${match(mending, "s", "l")}`),
    );
  });
}

/**
 * Keys of rows that lack values which the source has not sent since, or may have wrong ones; each is told once. In the open transaction,
 * between two batches, when all of the list is written. Values that are as they were copied are right: either nothing has changed them
 * since, or the stream brought them. `isMore`: others may be owed. Where not, all of the table is right once these are copied: what the
 * stream brings in part from then on, it brings of rows that are whole.
 */
export async function takeOwed(
  client: Client,
  mending: Mending,
): Promise<{ readonly owed: readonly RowKey[]; readonly isMore: boolean }> {
  const { tables, target, relation } = mending;
  const touched = sqlName(tables.touched);
  const longest = ownNames(relation).filter((name) =>
    target.columns.some((column) => column.name === name && column.length === -1),
  );
  const isRight =
    `exists (select from ${sqlName(tables.rows)} s, ${target.ownRows} t ` +
    `where ${match(mending, "s", "k")} and ${match(mending, "t", "k")} and ${areSame(longest)})`;
  const keys = relation.key.map((_, i) => `x.k${i}::text`).join(", ");
  await client.query("set local enable_hashjoin = off; set local enable_mergejoin = off");
  const { rows } = await client.query<{ key: RowKey }>(
    `update ${touched} x set is_partial = false where x.ctid in (select k.ctid from ${touched} k ` +
      `where k.is_partial and (k.is_moved or not ${isRight}) limit ${maxOwed}) returning array[${keys}] as key`,
  );
  return { owed: rows.map(({ key }) => key), isMore: rows.length === maxOwed };
}

/** A part of the list as `l`, but for what the stream has touched since. */
function listedSql(mending: Mending, what: number, after: number, to: number): string {
  const { mend, touched } = mending.tables;
  return (
    `(select * from ${sqlName(mend)} m where m.n > ${after} and m.n <= ${to} and m.kind = ${what} ` +
    `and not exists (select from ${sqlName(touched)} k where ${match(mending, "m", "k")})) l`
  );
}

function insertSql({ target }: Mending, names: readonly string[], from: string): string {
  const values = names.map((name) => `s.${escapeIdentifier(name)}`).join(", ");
  return `insert into ${sqlName(target.target)} (${sqlList(names)}) overriding system value select ${values} from ${from}`;
}

/** Columns that are the source's. The others tell where a row comes from: a copy is no reason to say that anew. */
function ownNames({ columns }: Relation): readonly string[] {
  return columns.filter((column) => !isSystemColumn(column)).map(({ name }) => name);
}

/** Or that row `t` does not tell where it comes from. */
function lacksOrigin({ columns }: Relation): string {
  const system = columns.filter(isSystemColumn).map(({ name }) => `t.${escapeIdentifier(name)}`);
  return system.length === 0 ? "" : ` or num_nulls(${system.join(", ")}) > 0`;
}

/** That rows `s` and `t` are the same, byte by byte: not every type has an equality, and not every equality means the same value. */
function areSame(names: readonly string[]): string {
  const row = (of: string) => `row(${names.map((name) => `${of}.${escapeIdentifier(name)}`).join(", ")})`;
  return `pg_catalog.record_image_eq(${row("s")}, ${row("t")})`;
}

/** That two rows have the same key. `t` and `s` have it by its columns' names, others as `k0`, `k1`, … */
function match({ target, relation }: Mending, one: string, other: string): string {
  const index = keyIndexOf(target, relation);
  const keys = relation.key.map((at, i) => {
    const { name } = relation.columns[at]!;
    const column = (of: string) =>
      of === "t" || of === "s" ? `${of}.${escapeIdentifier(name)}` : `${of}.k${i}`;
    return equalSql(
      index?.columns.find((indexed) => indexed.column === name),
      column(one),
      column(other),
    );
  });
  return keys.join(" and ");
}
