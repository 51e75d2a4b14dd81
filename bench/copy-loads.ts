// What is copied: one large table, and many small ones. They take long, so they are measured only when they are asked for.

import { tablesOfStreams } from "./bench-tables.ts";
import type { ContenderName } from "./contender.ts";
import { fill, type Goal } from "./loads.ts";

/** Tables at the source, which stay as they are: to fill them takes longer than to copy them. */
export interface CopySource {
  /** Makes and fills the tables, and leaves no others but `bench`, which they are made from. */
  readonly sql: string;
  readonly tables: readonly string[];
  readonly loads: readonly CopyLoad[];
}

export interface CopyLoad {
  readonly name: string;
  /** Rows in all. */
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
  const alone = `drop table ${tablesOfStreams.join(", ")}`;
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
      // Made once: the values take longer to make than the rows to write.
      sql: `${alone}; ${fill(each)}; create temporary table bench_rows as select * from bench; truncate bench; ${many.join("; ")}`,
      tables: names,
      loads: [{ name: `copies: ${manyTables} tables`, count: each * manyTables, ...toPostgres }],
    },
  ];
}
