// A table whose rows hold one value of 100 MB, in each type that can and under each replica identity.

import type { SizeStage } from "../program/size-stage.ts";

export const largeTypes = ["text", "bytea"] as const;
export type LargeType = (typeof largeTypes)[number];

const bytes = 100 * 1024 * 1024;

/** Both are stored as they are: a value that compresses well would come from the server's memory at once. */
export function largeValue(type: LargeType): string {
  const hex = "0123456789abcdeffedcba9876543210";
  return type === "text"
    ? `repeat('${hex}', ${bytes / 32})`
    : `decode(repeat('${hex}', ${bytes / 16}), 'hex')`;
}

/** `note` is kept out of line as well: an update that leaves it alone does not bring it, unless the old row comes whole. */
export async function createLarge(stage: SizeStage, table: string, type: LargeType): Promise<void> {
  await stage.write(
    `create table ${table} (id bigint primary key, number int default 0, note text default repeat('note', 1000), body ${type});
     alter table ${table} alter body set storage external, alter note set storage external`,
  );
}

/** What is done to such a row, one transaction each. */
export function largeChanges(table: string, type: LargeType): readonly (readonly [string, string])[] {
  const insert = (id: number) => `insert into ${table} (id, body) values (${id}, ${largeValue(type)})`;
  const another = type === "text" ? "'x' || body" : "'\\x78' || body";
  return [
    ["insert", insert(1)],
    ...changesOfOne(table, another),
    ["whole old rows", `alter table ${table} replica identity full`],
    ...changesOfOne(table, another),
    ["rows without a key", `alter table ${table} drop constraint ${table}_pkey`],
    ...changesOfOne(table, another),
    ["delete", `delete from ${table}`],
    ["five in one transaction", `begin; ${[2, 3, 4, 5, 6].map(insert).join("; ")}; commit`],
  ];
}

function changesOfOne(table: string, another: string): readonly (readonly [string, string])[] {
  return [
    ["another column", `update ${table} set number = number + 1`],
    ["another value", `update ${table} set body = ${another}`],
    ["another key", `update ${table} set id = id + 10`],
    ["another value and key", `update ${table} set id = id + 10, body = ${another}`],
  ];
}
