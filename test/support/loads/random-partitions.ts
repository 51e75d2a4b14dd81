// Partitioned tables in the model of a source's schema: partitions that come, go, and take other tables' names. A partition is no table
// of the model while it is attached, and is one from when it is detached.

import type { ModelTable, RandomAct, RandomSchema } from "./random-schema.ts";

export const partitionKinds = [
  "create root",
  "detach",
  "attach",
  "truncate leaf",
  "exchange leaf",
  "drop leaf",
  "new leaf",
  "rename leaf",
  "load leaf",
  "leaf identity",
  "rewrite leaf",
] as const;
export type PartitionKind = (typeof partitionKinds)[number];

export interface ModelLeaf {
  name: string;
  readonly range: number;
}

/** Of the key: all that is ever put in. */
const ranges = [
  [0, 20],
  [20, 40],
  [40, 80],
] as const;

/** Whether the root has a partition for the key `id`, as SQL; null: it is no root. */
export function isHeldSql({ leaves }: ModelTable, id: string): string | null {
  if (!leaves) return null;
  return leaves.map(({ range }) => within(id, range)).join(" or ") || "false";
}

/** SQL of the act; null when there is nothing that it could be done to. */
export function partitionAct(
  schema: RandomSchema,
  kind: PartitionKind,
  [a, b, c]: RandomAct["pick"],
): string | null {
  const roots = schema.tables.filter(({ leaves }) => leaves);
  const root = pick(roots, a);
  if (kind === "create root") return roots.length < 2 ? createRoot(schema) : null;
  if (!root?.leaves) return null;
  if (kind === "attach") return attach(schema, root, b, c);
  if (kind === "new leaf") return newLeaf(schema, root, b);
  const leaf = pick(root.leaves, b);
  if (!leaf) return null;
  switch (kind) {
    case "detach":
      if (schema.tables.length >= 5) return null;
      remove(root, leaf);
      schema.tables.push({ name: leaf.name, columns: structuredClone(root.columns) });
      return `alter table ${root.name} detach partition ${leaf.name}`;
    case "drop leaf":
      remove(root, leaf);
      schema.release("t", leaf.name);
      return `drop table ${leaf.name}`;
    case "truncate leaf":
      return `truncate ${leaf.name}`;
    case "rename leaf": {
      const before = leaf.name;
      leaf.name = schema.freshName("t");
      schema.release("t", before);
      return renameSql(before, leaf.name);
    }
    case "exchange leaf": {
      const plain = schema.tables.filter(({ leaves }) => !leaves);
      const others = [...plain, ...root.leaves].filter((other) => other !== leaf);
      const other = pick(others, c);
      return other ? schema.exchangeNames(leaf, other) : null;
    }
    case "load leaf": {
      const id = root.columns[0]!.name;
      const [from] = ranges[leaf.range]!;
      return `insert into ${leaf.name} (${id}) select generate_series(${from + (c % 18)}, ${from + (c % 18) + 1}) on conflict (${id}) do nothing`;
    }
    case "leaf identity":
      return `alter table ${leaf.name} replica identity ${c % 2 === 0 ? "full" : "default"}`;
    case "rewrite leaf":
      return `cluster ${leaf.name} using ${leaf.name}_key`;
    default:
      return kind satisfies never;
  }
}

export function createRoot(schema: RandomSchema): string {
  const columns: ModelTable["columns"] = [
    { name: "id", type: "int" },
    { name: schema.freshName("c"), type: "int" },
    { name: schema.freshName("c"), type: "text" },
  ];
  const name = schema.freshName("t");
  const leaves = ranges.map((_, range) => ({ name: schema.freshName("t"), range }));
  schema.tables.push({ name, columns, leaves });
  const list = columns.map(({ name, type }) => `${name} ${type}`).join(", ");
  return [
    `create table ${name} (${list}, constraint ${name}_key primary key (id)) partition by range (id)`,
    ...leaves.map((leaf) => leafSql(name, leaf)),
  ].join("; ");
}

function newLeaf(schema: RandomSchema, root: ModelTable, b: number): string | null {
  const range = pick(missingRanges(root), b);
  if (range === undefined) return null;
  const leaf = { name: schema.freshName("t"), range };
  root.leaves!.push(leaf);
  return leafSql(root.name, leaf);
}

/** A table of the same columns, without the rows that the partition may not have; a new one where there is none. */
function attach(schema: RandomSchema, root: ModelTable, b: number, c: number): string | null {
  const range = pick(missingRanges(root), b);
  if (range === undefined) return null;
  const isFit = (table: ModelTable) =>
    !table.leaves && !schema.kept.includes(table.name) && columnsText(table) === columnsText(root);
  const table = pick(schema.tables.filter(isFit), c);
  if (table) schema.tables.splice(schema.tables.indexOf(table), 1);
  const name = table?.name ?? schema.freshName("t");
  root.leaves!.push({ name, range });
  const id = root.columns[0]!.name;
  return [
    table ? `delete from ${name} where not ${within(id, range)}` : loadedSql(name, root, range),
    `alter table ${root.name} attach partition ${name} ${boundsSql(range)}`,
  ].join("; ");
}

/** A table with rows for the range, and with its columns in another order. */
function loadedSql(name: string, { columns: [key, ...others] }: ModelTable, range: number): string {
  const list = [...others.toReversed(), key!].map((column) => `${column.name} ${column.type}`).join(", ");
  return (
    `create table ${name} (${list}, constraint ${name}_key primary key (${key!.name})); ` +
    `insert into ${name} (${key!.name}) select generate_series(${ranges[range]![0]}, ${ranges[range]![0] + 3})`
  );
}

function leafSql(root: string, { name, range }: ModelLeaf): string {
  return `create table ${name} partition of ${root} ${boundsSql(range)}; alter index ${name}_pkey rename to ${name}_key`;
}

function renameSql(from: string, to: string): string {
  return `alter table ${from} rename to ${to}; alter index ${from}_key rename to ${to}_key`;
}

const boundsSql = (range: number) => `for values from (${ranges[range]![0]}) to (${ranges[range]![1]})`;
const within = (id: string, range: number) =>
  `(${id} >= ${ranges[range]![0]} and ${id} < ${ranges[range]![1]})`;

function missingRanges({ leaves }: ModelTable): readonly number[] {
  return [0, 1, 2].filter((range) => !leaves?.some((leaf) => leaf.range === range));
}

/** The key's first, then in any order. */
function columnsText({ columns: [key, ...others] }: ModelTable): string {
  return JSON.stringify([key!.name, ...others.map(({ name, type }) => `${name} ${type}`).sort()]);
}

function remove(root: ModelTable, leaf: ModelLeaf): void {
  root.leaves!.splice(root.leaves!.indexOf(leaf), 1);
}

function pick<T>(some: readonly T[], n: number): T | undefined {
  return some[n % Math.max(1, some.length)];
}
