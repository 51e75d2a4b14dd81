// A model of a source's schema that turns random numbers into SQL that is valid for it: rows that come and go, and tables that
// are altered meanwhile. What it makes of the same numbers is always the same.

import { type OwnType, ownValue, type TypeKind, typeAct, typeKinds } from "./random-own-type.ts";
import {
  createRoot,
  isHeldSql,
  type ModelLeaf,
  type PartitionKind,
  partitionAct,
  partitionKinds,
} from "./random-partitions.ts";

/** A random step: what kind of thing is done, and numbers that decide which. */
export interface RandomAct {
  readonly kind: ActKind;
  readonly pick: readonly [number, number, number];
}

export const changeKinds = ["insert", "update", "delete", "move key", "truncate"] as const;
export const alterationKinds = [
  "add",
  "add with value",
  "add with time",
  "add volatile",
  "drop",
  "rename",
  "exchange",
  "retype",
  "retype using",
  "identity",
  "rewrite",
  "create table",
  "drop table",
  "rename table",
  "exchange tables",
  "rename key",
] as const;
export type ActKind =
  | (typeof changeKinds)[number]
  | (typeof alterationKinds)[number]
  | PartitionKind
  | TypeKind;

interface ModelColumn {
  name: string;
  /** A key of `values`, or the name of one of the owner's types. */
  type: string;
}

export interface ModelTable {
  name: string;
  /** The first is the primary key. */
  readonly columns: ModelColumn[];
  /** Of a partitioned table. */
  readonly leaves?: ModelLeaf[];
}

/** SQL of a value of each type, from a number. */
const values: Readonly<Record<string, (n: number) => string>> = {
  int: (n: number) => String(n % 1000),
  bigint: (n: number) => String(BigInt(n) * 4_000_000_007n),
  "numeric(20,3)": (n: number) => `${n}.125`,
  text: (n: number) => (n % 5 === 0 ? `repeat('long ${n}', 700)` : `'t${n}''\\'`),
  "varchar(40)": (n: number) => `'v${n}'`,
  boolean: (n: number) => String(n % 2 === 0),
  "timestamp with time zone": (n: number) => `'2001-02-03 04:05:06Z'::timestamptz + ${n} * interval '1 hour'`,
  "int[]": (n: number) => `array[${n % 100}, null]`,
  jsonb: (n: number) => `'{"n": ${n}}'::jsonb`,
};
const types = Object.keys(values);

/** Types that values of a type can be given by the default cast. */
const wider: Readonly<Record<string, readonly string[]>> = {
  int: ["bigint", "numeric(20,3)", "text"],
  bigint: ["text"],
  boolean: ["text"],
  "varchar(40)": ["text"],
};

export const beginningNames = ["t1", "t4"] as const;

export class RandomSchema {
  tables: ModelTable[] = [];
  ownTypes: OwnType[] = [];
  #names = 0;
  /** Names that nothing has any more: to be given again. */
  #free = new Map<string, string[]>();

  /** `kept`: names that tables always have, since somebody counts on them. */
  constructor(
    readonly kept: readonly string[] = [],
    private readonly isAsRoot = false,
    private readonly hasRoot = false,
  ) {}

  /** SQL of the tables to begin with, whose names are `beginningNames`. */
  begin(): string {
    return [this.#createTable(), this.#createTable(), ...(this.hasRoot ? [createRoot(this)] : [])].join("; ");
  }

  /** `isCommitted`: all is, up to now. What it returns brings the model back: for what the database has undone. */
  savepoint(isCommitted = true): () => void {
    if (isCommitted) for (const { parts, pending } of this.ownTypes) parts.push(...pending.splice(0));
    const saved = structuredClone([this.tables, this.#names, this.#free, this.ownTypes] as const);
    return () => {
      [this.tables, this.#names, this.#free, this.ownTypes] = saved;
    };
  }

  /** Of tables whose changes come by themselves. */
  get tableNames(): readonly string[] {
    return this.tables.flatMap(({ name, leaves }) =>
      leaves && !this.isAsRoot ? leaves.map((leaf) => leaf.name) : [name],
    );
  }

  /** SQL of the act; null when there is nothing that it could be done to. */
  act({ kind, pick: [a, b, c] }: RandomAct): string | null {
    const table = this.tables[a % Math.max(1, this.tables.length)];
    if (kind === "create table") return this.tables.length < 3 ? this.#createTable() : null;
    if (isTypeKind(kind)) return typeAct(this, kind, [a, b, c]);
    if (isPartitionKind(kind)) return partitionAct(this, kind, [a, b, c]);
    if (!table) return null;
    if ((kind === "drop table" || kind === "rename table") && this.kept.includes(table.name)) return null;
    const others = table.columns.slice(1);
    const column = others[b % Math.max(1, others.length)];
    switch (kind) {
      case "insert":
        return insertSql(table, b, c, (type, n) => this.#value(type, n));
      case "update":
        return column
          ? `update ${table.name} set ${column.name} = ${this.#value(column.type, c)} where ${near(table, b)}`
          : null;
      case "delete":
        return `delete from ${table.name} where ${near(table, b)}`;
      case "move key":
        return moveKeySql(table, b, c);
      case "truncate":
        return b % 4 === 0 ? `truncate ${table.name}` : null;
      case "drop table":
        this.tables.splice(this.tables.indexOf(table), 1);
        for (const { name } of [table, ...(table.leaves ?? [])]) this.release("t", name);
        return `drop table ${table.name}`;
      case "rename table":
        return this.#renameTable(table);
      case "exchange tables":
        return this.exchangeNames(table, this.tables[b % this.tables.length]!);
      case "rename key":
        return this.#renameKey(table.columns[0]!, table.name);
      case "identity":
        return `alter table ${table.name} replica identity ${identities(table)[b % 4]}`;
      case "rewrite":
        return table.leaves ? null : `cluster ${table.name} using ${primaryKey(table)}`;
      default:
        return this.#alter(kind, table, column, b, c);
    }
  }

  #alter(
    kind: ActKind,
    table: ModelTable,
    column: ModelColumn | undefined,
    b: number,
    c: number,
  ): string | null {
    const alter = `alter table ${table.name}`;
    if (kind.startsWith("add")) {
      if (table.columns.length > 8) return null;
      const type = types[c % types.length]!;
      const added = { name: this.freshColumn(table), type };
      table.columns.push(added);
      return `${alter} add column ${added.name} ${type}${addition(kind, type, b)}`;
    }
    if (!column) return null;
    switch (kind) {
      case "drop":
        table.columns.splice(table.columns.indexOf(column), 1);
        this.release("c", column.name);
        return `${alter} drop column ${column.name}`;
      case "rename": {
        const before = column.name;
        column.name = this.freshColumn(table);
        this.release("c", before);
        return `${alter} rename ${before} to ${column.name}`;
      }
      case "exchange":
        return exchangeSql(table, column, c);
      case "retype": {
        const choices = wider[column.type] ?? [];
        const type = choices[c % Math.max(1, choices.length)];
        if (!type) return null;
        column.type = type;
        return `${alter} alter ${column.name} type ${type}`;
      }
      case "retype using":
        column.type = "text";
        return `${alter} alter ${column.name} type text using 'u' || left(${column.name}::text, 30)`;
      default:
        return null;
    }
  }

  #createTable(): string {
    const table: ModelTable = {
      name: this.freshName("t"),
      columns: [
        { name: "id", type: "int" },
        { name: this.freshName("c"), type: "int" },
        { name: this.freshName("c"), type: "text" },
      ],
    };
    this.tables.push(table);
    const columns = table.columns.map(({ name, type }) => `${name} ${type}`).join(", ");
    return (
      `create table ${table.name} (${columns}, constraint ${primaryKey(table)} primary key (id)); ` +
      `alter table ${table.name} alter ${table.columns[2]!.name} set storage external`
    );
  }

  /** Its primary key keeps the name of the constraint, and so is called as the table is: renamed along. */
  #renameTable(table: ModelTable): string {
    const before = { name: table.name, key: primaryKey(table) };
    table.name = this.freshName("t");
    this.release("t", before.name);
    return (
      `alter table ${before.name} rename to ${table.name}; ` +
      `alter index ${before.key} rename to ${primaryKey(table)}`
    );
  }

  exchangeNames(one: { name: string }, other: { name: string }): string | null {
    const isKept = [one.name, other.name].some((each) => this.kept.includes(each));
    const isPlain = [one, other].every((each) => "columns" in each && !("leaves" in each));
    if (one === other || (isKept && !isPlain)) return null;
    const [name, otherName] = [one.name, other.name];
    const rename = (from: string, to: string) =>
      `alter table ${from} rename to ${to}; alter index ${from}_key rename to ${to}_key`;
    one.name = otherName;
    other.name = name;
    return [rename(name, "aside"), rename(otherName, name), rename("aside", otherName)].join("; ");
  }

  #renameKey(column: ModelColumn, table: string): string {
    const before = column.name;
    column.name = this.freshName("k");
    return `alter table ${table} rename ${before} to ${column.name}`;
  }

  /** Every other name is one that something else had before. */
  freshName(prefix: string, taken: readonly string[] = []): string {
    const free = this.#free.get(prefix) ?? [];
    const name = (++this.#names % 2 === 0 && free.shift()) || `${prefix}${this.#names}`;
    return taken.includes(name) ? this.freshName(prefix, taken) : name;
  }

  freshColumn({ columns }: ModelTable): string {
    return this.freshName(
      "c",
      columns.map(({ name }) => name),
    );
  }

  #value(type: string, n: number): string {
    const own = this.ownTypes.find(({ name }) => name === type);
    return own ? ownValue(own, n) : values[type]!(n);
  }

  release(prefix: string, name: string): void {
    this.#free.set(prefix, [...(this.#free.get(prefix) ?? []), name]);
  }
}

function isTypeKind(kind: ActKind): kind is TypeKind {
  return typeKinds.some((each) => each === kind);
}

function isPartitionKind(kind: ActKind): kind is PartitionKind {
  return partitionKinds.some((each) => each === kind);
}

const identities = (table: ModelTable) => ["full", "default", "full", `using index ${primaryKey(table)}`];
const primaryKey = (table: ModelTable) => `${table.name}_key`;

function near(table: ModelTable, n: number): string {
  return `${table.columns[0]!.name} between ${n % 60} and ${(n % 60) + 4}`;
}

function insertSql(
  table: ModelTable,
  b: number,
  c: number,
  value: (type: string, n: number) => string,
): string {
  const [key, ...others] = table.columns;
  const list = others.map(({ type }, i) => ((b + i) % 7 === 0 ? "null" : value(type, c + i)));
  return (
    `insert into ${table.name} select ${["g", ...list].join(", ")} ` +
    `from generate_series(${b % 60}, ${(b % 60) + (c % 4)}) g where ${isHeldSql(table, "g") ?? "true"} on conflict (${key!.name}) do nothing`
  );
}

function moveKeySql(table: ModelTable, b: number, c: number): string {
  const id = table.columns[0]!.name;
  return (
    `update ${table.name} set ${id} = ${c % 60} where ${id} = ${b % 60} ` +
    `and not exists (select from ${table.name} where ${id} = ${c % 60}) and (${isHeldSql(table, String(c % 60)) ?? "true"})`
  );
}

function addition(kind: ActKind, type: string, n: number): string {
  switch (kind) {
    case "add with value":
      return ` default ${values[type]!(n)}`;
    case "add with time":
      return type.startsWith("timestamp") ? " default now()" : "";
    case "add volatile":
      return type === "int" ? " default (random() * 1000)::int" : "";
    default:
      return "";
  }
}

/** Two columns take each other's names. */
function exchangeSql(table: ModelTable, column: ModelColumn, c: number): string | null {
  const candidates = table.columns.slice(1).filter((other) => other !== column);
  const other = candidates[c % Math.max(1, candidates.length)];
  if (!other) return null;
  const alter = `alter table ${table.name} rename`;
  const sql = `${alter} ${column.name} to aside; ${alter} ${other.name} to ${column.name}; ${alter} aside to ${other.name}`;
  [column.name, other.name] = [other.name, column.name];
  return sql;
}
