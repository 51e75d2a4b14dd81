// A table whose rows move between its pages and its keys while something else happens, and hold values that are stored out of line and
// that most changes leave as they are.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";

/** `rows` rows, about 13 to a page of the table itself. */
export const movingRows = (table: string, rows: number, identity = "default") => `
  create table ${table} (id int primary key, n int not null, text text not null, far text not null);
  alter table ${table} alter far set storage external, alter text set storage plain, replica identity ${identity};
  insert into ${table} select g, 0, repeat(chr(97 + g % 26), 500), repeat(md5(g::text), 80) from generate_series(1, ${rows}) g`;

export interface MovingRows extends AsyncDisposable {
  /** Transactions that were committed so far. */
  readonly transactions: number;
}

/** Between two changes, at least: the sink is to keep up with them. */
const usualPaceMs = 4;

/** Of the time that a change took: where a busy machine makes the sink slow, the changes come slower as well. */
const restPerChange = 3;

/** The first rows stay as they are. */
const settledRows = 50;

/**
 * Changes go on until it is disposed of. Space that rows leave is used again by those that move. `keepsKeys`: no row gets another key.
 */
export async function moveRows(
  rig: { sourceSession(): Promise<Client> },
  table: string,
  rows: number,
  seed = 1,
  keepsKeys = false,
  paceMs = usualPaceMs,
): Promise<MovingRows> {
  const session = await rig.sourceSession();
  const random = randomOf(seed);
  let transactions = 0;
  let isOver = false;
  const key = () => settledRows + 1 + Math.floor(random() * (rows - settledRows));
  const move = async () => {
    while (!isOver) {
      const [a, b] = [key(), key()];
      const kind = Math.floor(random() * 60);
      const isOther = keepsKeys && (kind === 5 || kind === 6);
      const begun = performance.now();
      await session.query(changeOf(table, isOther ? 1 : kind, a, b, ++transactions));
      await sleep(Math.max(paceMs, (performance.now() - begun) * restPerChange));
    }
  };
  const moving = move();
  return {
    get transactions() {
      return transactions;
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      await moving;
      await session.end();
    },
  };
}

function changeOf(table: string, kind: number, a: number, b: number, n: number): string {
  switch (kind) {
    case 0:
      return `vacuum ${table}`;
    case 1:
      return `update ${table} set n = ${n} where id between ${a} and ${a + 5}`;
    case 2:
      return `update ${table} set far = repeat(md5('${n}'), 90), n = ${n} where id = ${a}`;
    case 3:
      return `delete from ${table} where id in (${a}, ${b})`;
    case 4:
      return `insert into ${table} values (${a}, ${n}, repeat('n', 500), repeat(md5('${n}'), 70)) on conflict do nothing`;
    case 5:
      return `update ${table} set id = ${b} where id = ${a} and not exists (select from ${table} where id = ${b})`;
    case 6:
      // Two rows exchange their keys, and what is out of line goes with them.
      return `begin; update ${table} set id = -1 where id = ${a}; update ${table} set id = ${a} where id = ${b};
        update ${table} set id = ${b} where id = -1; commit`;
    case 7:
      return `begin; delete from ${table} where id = ${a};
        insert into ${table} values (${a}, ${n}, repeat('a', 500), repeat(md5('${n} again'), 70));
        update ${table} set n = n + 1 where id = ${a}; commit`;
    default:
      return n % 10 === 0
        ? `vacuum ${table}`
        : `update ${table} set n = ${n} where id between ${a} and ${a + 30}`;
  }
}

/** Numbers from 0 up to 1, the same for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
