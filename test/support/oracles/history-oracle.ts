// What a history must tell: replayed to any recorded place it gives the rows that were there, at any recorded time its view does, each change of the
// source is in it once, and the view's versions follow each other without a gap or an overlap.

import { expect } from "bun:test";
import { type PlayedTable, playedTables, type Recorded } from "../loads/history-load.ts";

type Query = <Row extends object>(sql: string) => Promise<Row[]>;

interface ToldRow {
  readonly op: string;
  readonly lsn: bigint;
  readonly us: bigint;
  readonly key: string;
  readonly v: string | null;
  /** By the source's number of the column. */
  readonly values: ReadonlyMap<number, string | null>;
}

export interface Verified {
  /** Recorded tables that were compared. */
  readonly places: number;
  readonly changes: number;
}

export async function verifyHistories(
  source: Query,
  sink: Query,
  recorded: readonly Recorded[],
  numbers: ReadonlyMap<string, ReadonlyMap<string, number>>,
): Promise<Verified> {
  let [places, changes] = [0, 0];
  for (const table of playedTables) {
    const rows = await readHistory(sink, table, numbers.get(table.name)!);
    changes += await expectEachOnce(source, table, rows);
    const ofTable = recorded.filter((one) => one.table === table.name);
    expectReplayed(table, rows, ofTable);
    await expectVersions(sink, table, rows, ofTable);
    places += ofTable.length;
  }
  return { places, changes };
}

async function readHistory(
  sink: Query,
  { name, key }: PlayedTable,
  numbers: ReadonlyMap<string, number>,
): Promise<readonly ToldRow[]> {
  const known = await sink<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = '${name}_history'::regclass and attnum > 0 and not attisdropped and attname !~ '^_sm_'`,
  );
  const names = known.map((column) => column.name);
  const rows = await sink<{
    op: string;
    lsn: string;
    us: string;
    v: string | null;
    key: string;
    values: (string | null)[];
  }>(
    `select _sm_op as op, (_sm_lsn - '0/0')::text as lsn, (extract(epoch from _sm_committed_at) * 1000000)::int8::text as us, v,
       concat_ws('|', ${key.join(", ")}) as key, array[${names.map((one) => `${one}::text`).join(", ")}] as values
     from ${name}_history order by _sm_lsn, _sm_ordinal`,
  );
  return rows.map(({ op, lsn, us, v, key: at, values }) => ({
    op,
    v,
    key: at,
    lsn: BigInt(lsn),
    us: BigInt(us),
    values: new Map(names.map((one, i) => [numbers.get(one) ?? -1, values[i] ?? null])),
  }));
}

/** Returns how many changes there are. */
async function expectEachOnce(
  source: Query,
  { name }: PlayedTable,
  rows: readonly ToldRow[],
): Promise<number> {
  const made = await source<{ op: string; key: string | null; v: string | null }>(
    `select op, key, v from audit.change where tbl = '${name}' and seq > (select first from audit.beginning) order by seq`,
  );
  const byKey = (
    all: readonly { readonly op: string; readonly key: string | null; readonly v: string | null }[],
  ) => {
    const grouped = Map.groupBy(all, ({ op, key }) => (op === "t" ? "" : (key ?? "")));
    return new Map([...grouped].map(([key, some]) => [key, some.map(({ op, v }) => `${op} ${v}`)]));
  };
  const told = byKey(rows.filter(({ op }) => op !== "r"));
  const wanted = byKey(made);
  for (const key of new Set([...told.keys(), ...wanted.keys()])) {
    expect({ table: name, key, changes: told.get(key) ?? [] }).toEqual({
      table: name,
      key,
      changes: wanted.get(key) ?? [],
    });
  }
  return made.length;
}

function expectReplayed(table: PlayedTable, rows: readonly ToldRow[], recorded: readonly Recorded[]): void {
  const state = new Map<string, ToldRow>();
  let next = 0;
  for (const place of recorded.toSorted((a, b) => (a.lsn < b.lsn ? -1 : 1))) {
    for (; next < rows.length && rows[next]!.lsn < place.lsn; next++) {
      const row = rows[next]!;
      if (row.op === "t") state.clear();
      else if (row.op === "d") state.delete(row.key);
      else state.set(row.key, row);
    }
    expectRows(`${table.name} at ${place.lsn.toString(16)}`, [...state.values()], place);
  }
}

function expectRows(where: string, rows: readonly ToldRow[], { columns, rows: wanted }: Recorded): void {
  const told = rows
    .map(({ values }) => arrayText(columns.map((number) => values.get(number) ?? null)))
    .sort();
  expect({ where, rows: told }).toEqual({ where, rows: [...wanted] });
}

/** As Postgres prints a text[]. */
function arrayText(values: readonly (string | null)[]): string {
  const element = (value: string | null) => {
    if (value === null) return "NULL";
    return value === "" || /[\s{}",\\]|^null$/i.test(value)
      ? `"${value.replaceAll(/(["\\])/g, "\\$1")}"`
      : value;
  };
  return `{${values.map(element).join(",")}}`;
}

interface Version {
  readonly key: string;
  readonly v: string;
  readonly from: bigint;
  /** Null: infinity. */
  readonly to: bigint | null;
}

/** The versions are those that the rows give, and at each recorded time they are the rows that were there. */
async function expectVersions(
  sink: Query,
  { name, key }: PlayedTable,
  rows: readonly ToldRow[],
  recorded: readonly Recorded[],
): Promise<void> {
  const us = (column: string) => `(extract(epoch from ${column}) * 1000000)::int8::text`;
  const found = await sink<{ key: string; v: string; from: string; to: string | null; is_current: boolean }>(
    `select concat_ws('|', ${key.join(", ")}) as key, v, ${us("valid_from")} as from, is_current,
       case when isfinite(valid_to) then ${us("valid_to")} end as to from ${name}_versions`,
  );
  const versions = found.map(
    (row): Version => ({
      key: row.key,
      v: row.v,
      from: BigInt(row.from),
      to: row.to === null ? null : BigInt(row.to),
    }),
  );
  expect(found.every(({ to, is_current }) => (to === null) === is_current)).toBe(true);
  const text = ({ key: at, v, from, to }: Version) => `${at} ${v} ${from} ${to}`;
  expect(versions.map(text).sort()).toEqual(versionsOf(rows).map(text).sort());
  const byV = new Map(
    rows.filter(({ op }) => op !== "d" && op !== "t").map((row) => [`${row.key} ${row.v}`, row]),
  );
  for (const place of recorded) {
    const there = versions.filter(
      ({ from, to }) => from <= place.timeUs && (to === null || place.timeUs < to),
    );
    const tokens = there.map((version) => byV.get(`${version.key} ${version.v}`)!);
    expectRows(`${name} at the time ${place.timeUs}`, tokens, place);
  }
}

/** By the definition: a version lasts from the latest time so far of its key to that of the key's next change, or of a TRUNCATE. */
function versionsOf(rows: readonly ToldRow[]): readonly Version[] {
  const versions: Version[] = [];
  const open = new Map<string, { readonly v: string; readonly from: bigint }>();
  const latest = new Map<string, bigint>();
  let truncated = 0n;
  const max = (a: bigint, b: bigint) => (a > b ? a : b);
  for (const { op, key, v, us } of rows) {
    if (op === "t") {
      truncated = max(truncated, us);
      for (const [at, version] of open)
        versions.push({ key: at, ...version, to: max(version.from, truncated) });
      open.clear();
      continue;
    }
    const at = max(max(latest.get(key) ?? 0n, us), truncated);
    latest.set(key, at);
    const before = open.get(key);
    if (before) versions.push({ key, ...before, to: at });
    open.delete(key);
    if (op !== "d") open.set(key, { v: v ?? "", from: at });
  }
  for (const [key, version] of open) versions.push({ key, ...version, to: null });
  return versions;
}
