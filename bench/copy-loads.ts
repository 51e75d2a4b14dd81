// The copy benchmarks: one large table, and many small ones. They run only on request, because they take long.

import { streamTables } from "./bench-tables.ts";
import type { ContenderName } from "./contenders/contender.ts";
import { fill, type Goal } from "./loads.ts";

/** Tables at the source. All loads of a source share them, because filling them takes longer than copying them. */
export interface CopySource {
  /** Creates and fills the tables. The only other table left is `bench`, their template. */
  readonly sql: string;
  readonly tables: readonly string[];
  readonly loads: readonly CopyLoad[];
}

export interface CopyLoad {
  readonly name: string;
  /** Rows of all tables. */
  readonly count: number;
  readonly by: readonly ContenderName[];
  readonly goal: Goal;
}

const manyTables = 50;
const toPostgres = {
  by: ["postgres", "millrace", "psql", "pgcopydb"],
  goal: { rate: 1.2, ofPipe: 1 },
} as const;

export function copySources(rows: number): readonly CopySource[] {
  const each = Math.max(1, Math.floor(rows / 10));
  const names = Array.from({ length: manyTables }, (_, i) => `bench_copy_${i + 1}`);
  const many = names.map(
    (name) => `create table ${name} (like bench including all); insert into ${name} select * from bench_rows`,
  );
  const alone = `drop table ${streamTables.join(", ")}`;
  return [
    {
      sql: `${alone}; ${fill(rows * 5)}`,
      tables: ["bench"],
      loads: [
        { name: "copies: one table", count: rows * 5, ...toPostgres },
        {
          name: "copies: to a webhook",
          count: rows * 5,
          by: ["webhook"],
          goal: { perSecond: 150_000 },
        },
      ],
    },
    {
      // Generated once: producing the values takes longer than writing the rows.
      sql: `${alone}; ${fill(each)}; create temporary table bench_rows as select * from bench; truncate bench; ${many.join("; ")}`,
      tables: names,
      loads: [{ name: `copies: ${manyTables} tables`, count: each * manyTables, ...toPostgres }],
    },
  ];
}
