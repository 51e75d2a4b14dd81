// Random transactions over several sessions, which go on whatever happens to the source: what is not committed is not there.

import type { Client } from "pg";
import { type ChaosStage, database } from "./chaos-stage.ts";
import type { Random } from "./random.ts";

const pick = (random: Random, below: number) => Math.floor(random() * below);

/** Each is one statement of a transaction. */
function statement(random: Random): string {
  const some = (table: string, count = 3) =>
    `id in (select id from ${table} order by md5(id::text || '${pick(random, 1e9)}') limit ${count})`;
  const statements: readonly (() => string)[] = [
    () =>
      `insert into parents (v, n) select repeat(md5(g::text), ${1 + pick(random, 3)}), random() * 1e6 from generate_series(1, ${1 + pick(random, 20)}) g`,
    () => `update parents set changed = changed + 1, n = n * 1.01 where ${some("parents", 10)}`,
    () => `update parents set id = id + 1000000 where ${some("parents", 1)} and id < 1000000`,
    () => `delete from parents where ${some("parents", 2)}`,
    () =>
      `insert into children (parent, v) select id, md5(random()::text) from parents where ${some("parents", 5)}`,
    () => `update children set v = v || 'x' where ${some("children", 5)}`,
    () => `delete from children where ${some("children", 3)}`,
    () =>
      `insert into large values (${pick(random, 50)}, repeat(md5(random()::text), ${pick(random, 2_000)})) on conflict (id) do update set w = large.w + 1`,
    () =>
      `update large set v = repeat(md5(random()::text), ${pick(random, 2_000)}) where ${some("large", 1)}`,
    () => `insert into keyless select g % 3, 'x' || g from generate_series(1, ${1 + pick(random, 5)}) g`,
    () => "delete from keyless where ctid in (select ctid from keyless limit 2)",
    // Rows without a key are applied one by one.
    () => "update keyless set b = left(b || 'y', 50) where ctid in (select ctid from keyless limit 2)",
    () => "insert into changing (v) values (md5(random()::text))",
    () => `update changing set v = v || 'c' where ${some("changing", 4)}`,
    () => "insert into emptied (v) select 'e' from generate_series(1, 5)",
    () => `insert into parts (v) select 'p' || g from generate_series(1, ${1 + pick(random, 8)}) g`,
    () => `update parts set v = v || 'q' where ${some("parts", 4)}`,
    () => `delete from parts where ${some("parts", 2)}`,
  ];
  return (statements[pick(random, statements.length)] as () => string)();
}

/** What keeps tables from growing without end over hundreds of rounds. */
export const trimming = [
  "delete from parents where id in (select id from parents order by random() limit greatest(0, (select count(*) from parents) - 3000))",
  "delete from parts where id in (select id from parts order by random() limit greatest(0, (select count(*) from parts) - 2000))",
  "delete from keyless where ctid in (select ctid from keyless limit greatest(0, (select count(*) from keyless) - 500))",
  "delete from changing where id in (select id from changing order by random() limit greatest(0, (select count(*) from changing) - 500))",
  "delete from emptied where id in (select id from emptied order by random() limit greatest(0, (select count(*) from emptied) - 500))",
  "delete from children where id in (select id from children order by random() limit greatest(0, (select count(*) from children) - 2000))",
  // At the sinks they stay.
  `do $$ declare late text; begin for late in select relname from pg_class where relname ~ '^late_[0-9]+$' and relkind = 'r' order by oid desc offset 2
   loop execute 'drop table ' || late; end loop; end $$`,
];

export interface Load {
  readonly transactions: number;
  stop(): Promise<void>;
}

export function beginLoad(stage: Pick<ChaosStage, "source">, sessions: number, random: Random): Load {
  const over = new AbortController();
  let transactions = 0;
  const play = async () => {
    while (!over.signal.aborted) {
      try {
        await using client = await stage.source.connect(database);
        while (!over.signal.aborted) {
          if (await transact(client, random)) transactions++;
          await Bun.sleep(pick(random, 80));
        }
      } catch {
        // The server is gone for the moment.
        await Bun.sleep(100);
      }
    }
  };
  const playing = Array.from({ length: sessions }, play);
  return {
    get transactions() {
      return transactions;
    },
    async stop() {
      over.abort();
      await Promise.all(playing);
    },
  };
}

/** Whether it was committed: some are rolled back, and some fail of what others do meanwhile. */
async function transact(client: Client, random: Random): Promise<boolean> {
  await client.query("begin");
  try {
    await client.query("set local lock_timeout = '2s'");
    for (let n = 0; n <= pick(random, 4); n++) await client.query(statement(random));
    const isKept = random() > 0.07;
    await client.query(isKept ? "commit" : "rollback");
    return isKept;
  } catch (error) {
    // Throws in its turn where the session is gone.
    await client.query("rollback");
    if (isConflict(error)) return false;
    throw error;
  }
}

/** Deadlocks, locks of what alters tables, and columns that were renamed meanwhile. */
function isConflict(error: unknown): boolean {
  return /^(40|55|42|23)/.test(String((error as { code?: unknown }).code));
}
