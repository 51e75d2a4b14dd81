// The tables that hold the cases, and what is done to them: rows for the copy, then inserts, updates and deletes for the
// stream; by primary key, by the whole old row, and with the values themselves as keys.

import type { JsonKind, ValueCase } from "./value-case.ts";
import { valueCases } from "./value-cases.ts";

export interface TortureColumn {
  /** As it stands in the catalog. */
  readonly name: string;
  readonly type: string;
  readonly values: readonly string[];
  readonly json: JsonKind;
  readonly isArray: boolean;
  readonly isOwn: boolean;
  readonly isTextOnly: boolean;
  readonly sinkType: string | null;
}

export interface TortureTable {
  /** As SQL, with its schema. */
  readonly sqlName: string;
  /** Where a webhook gets it. */
  readonly path: string;
  readonly keyColumn: string;
  /** Otherwise rows are found by all of their values. */
  readonly hasKey: boolean;
  /** Column that orders the rows. */
  readonly orderBy: string;
  readonly columns: readonly TortureColumn[];
  readonly createSql: string;
  readonly copiedSql: string;
  readonly insertSql: string;
  readonly changeSql: string;
}

export interface TortureSetting {
  readonly source: number;
  readonly sink: number;
  /** Only what may travel as bytes. */
  readonly binaryOnly: boolean;
}

const columnsPerTable = 15;
/** Arrays of these are keys as well. */
const arrayKeys: ReadonlySet<string> = new Set(["integer", "text", "numeric", "inet", "boolean"]);

export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
const cast = (value: string, type: string) => `(${value})::${type}`;

export function tortureTables(setting: TortureSetting): readonly TortureTable[] {
  const columns = valueCases.flatMap((value, i) => columnsOf(value, i, setting));
  const tables: TortureTable[] = [];
  for (let i = 0; i < columns.length; i += columnsPerTable) {
    const some = columns.slice(i, i + columnsPerTable);
    tables.push(valueTable(`t${i}`, some, true, setting), valueTable(`f${i}`, some, false, setting));
  }
  const keys = columns.filter((column) => column.isKey);
  return [...tables, ...keys.map((column, i) => keyTable(`k${i}`, column))];
}

type KeyableColumn = TortureColumn & { readonly isKey: boolean };

function columnsOf(
  value: ValueCase,
  index: number,
  { source, sink, binaryOnly }: TortureSetting,
): readonly KeyableColumn[] {
  if (value.since && (source < value.since.source || sink < value.since.sink)) return [];
  const { type, json, isOwn = false, isTextOnly = false } = value;
  // What the greatest interval means changed with 17.
  const isInterval = type.startsWith("interval") && source >= 17 !== sink >= 17;
  const scalar: KeyableColumn = {
    name: `${index} ${type}`.slice(0, 60),
    type,
    values: value.values.map((sql) => cast(sql, type)),
    json,
    isArray: value.isArrayDomain ?? false,
    isKey: value.isKey ?? false,
    isOwn,
    isTextOnly: isTextOnly || isInterval,
    // A scale below 0 or above the precision has been a modifier since 15.
    sinkType: value.sinkType ?? (sink < 15 && value.since?.source === 15 ? "numeric" : null),
  };
  const array: KeyableColumn = {
    ...scalar,
    name: `${index} ${type}[]`.slice(0, 60),
    type: `${type}[]`,
    values: (value.arrays ?? arraysOf(type, scalar.values)).map((sql) => cast(sql, `${type}[]`)),
    isArray: true,
    json: value.isArrayDomain ? "text" : json,
    isKey: arrayKeys.has(type),
    isTextOnly: scalar.isTextOnly || isOwn,
    sinkType: scalar.sinkType === "numeric" ? "numeric[]" : scalar.sinkType,
  };
  const both = value.isArrayless ? [scalar] : [scalar, array];
  return both.filter((column) => !binaryOnly || !column.isTextOnly);
}

function arraysOf(type: string, values: readonly string[]): readonly string[] {
  const first = values[0]!;
  const last = values.at(-1)!;
  const nothing = cast("null", type);
  return [
    "'{}'",
    `array[${values.join(", ")}, ${nothing}]`,
    `array[array[${first}, ${nothing}], array[${last}, ${first}]]`,
    `array_fill(${last}, array[2, 1, 2], array[-1, 5, 0])`,
    `array[${nothing}]`,
  ];
}

function valueTable(
  name: string,
  columns: readonly TortureColumn[],
  hasKey: boolean,
  { binaryOnly }: TortureSetting,
): TortureTable {
  const sqlName = `torture.${name}`;
  const rows = Math.max(...columns.map((column) => column.values.length)) + 1;
  const list = columns.map((column) => quoted(column.name));
  const rowSql = (id: number, from: number) =>
    `(${[id, ...columns.map(({ values }) => values[from] ?? (from === rows - 1 ? "null" : values[from % values.length]))].join(", ")})`;
  const insert = (base: number) =>
    `insert into ${sqlName} (id, ${list.join(", ")}) values ${Array.from({ length: rows }, (_, i) => rowSql(base + i, i)).join(", ")};`;
  // A column that cannot travel as bytes makes the copy text, too.
  const definitions = columns.map((column) => `${quoted(column.name)} ${column.type}`);
  const all = ["id int", ...(binaryOnly ? [] : ["as_text regclass"]), ...definitions].join(", ");
  const set = list.map((column) => `${column} = s.${column}`).join(", ");
  return {
    sqlName,
    path: `/torture/${name}`,
    keyColumn: "id",
    hasKey,
    orderBy: "id",
    columns,
    createSql: `create table ${sqlName} (${all}); alter table ${sqlName} ${hasKey ? "add primary key (id)" : "replica identity full"};`,
    copiedSql: insert(0),
    insertSql: insert(100),
    changeSql: `
      update ${sqlName} t set ${set} from ${sqlName} s where t.id < 100 and s.id = 100 + (t.id + 1) % ${rows};
      update ${sqlName} t set ${set} from ${sqlName} s where t.id >= 100 and s.id = 100 + (t.id - 98) % ${rows};
      delete from ${sqlName} where id in (1, 101);`,
  };
}

function keyTable(name: string, column: TortureColumn): TortureTable {
  const sqlName = `torture.${name}`;
  // An index takes what compresses to less than a third of a page.
  const values = column.values.filter((value) => !value.includes("md5(") && !value.startsWith("(null)"));
  const insert = (rest: number) =>
    values
      .map((value, i) =>
        i % 2 === rest ? `insert into ${sqlName} values (${value}, ${i}) on conflict do nothing;` : "",
      )
      .join("");
  return {
    sqlName,
    path: `/torture/${name}`,
    keyColumn: "k",
    hasKey: true,
    orderBy: "v",
    columns: [{ ...column, name: "k" }],
    createSql: `create table ${sqlName} (k ${column.type} primary key, v int);`,
    copiedSql: insert(0),
    insertSql: insert(1),
    changeSql: `
      update ${sqlName} set v = v + 100;
      delete from ${sqlName} where v = 100;
      update ${sqlName} set k = ${values[0]} where v = (select max(v) from ${sqlName});`,
  };
}
