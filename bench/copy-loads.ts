// What is copied: one large table, and many small ones. They take long, so they are measured only when they are asked for.

import { fill } from "./loads.ts";

export interface CopyLoad {
  readonly name: string;
  /** Rows in all. */
  readonly count: number;
  /** Makes and fills the tables, beside the empty ones that are there. */
  readonly sql: string;
  readonly tables: readonly string[];
  /** The ratio to Postgres' own table synchronisation that is wanted. */
  readonly goal: { readonly rate: number };
}

const manyTables = 50;

export function copyLoads(rows: number): readonly CopyLoad[] {
  const each = Math.max(1, Math.floor(rows / 10));
  const names = Array.from({ length: manyTables }, (_, i) => `bench_copy_${i + 1}`);
  const many = names.map(
    (name) => `create table ${name} (like bench including all); insert into ${name} select * from bench_rows`,
  );
  return [
    {
      name: "copies: one table",
      count: rows * 5,
      sql: fill(rows * 5),
      tables: ["bench"],
      goal: { rate: 1.2 },
    },
    {
      name: `copies: ${manyTables} tables`,
      count: each * manyTables,
      // Made once: the values take longer to make than the rows to write.
      sql: `${fill(each)}; create temporary table bench_rows as select * from bench; truncate bench; ${many.join("; ")}`,
      tables: names,
      goal: { rate: 1.2 },
    },
  ];
}
