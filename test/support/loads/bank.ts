// A bank whose every transaction is numbered: what a reader sees of it, all tables together, tells which commit of the source
// that is, or that it is none.

import type { Client } from "pg";

const tables = `
create table place (id int primary key, n int not null);
create table account_a (id int primary key, balance int8 not null);
create table account_b (id int primary key, balance int8 not null, memo text);
create table move (n int not null, amount int8 not null);
create table bulk (id int primary key, n int not null);
insert into place values (1, 0);
insert into account_a select i, 1000 from generate_series(0, 19) i;
insert into account_b select i, 1000 from generate_series(0, 19) i;
insert into bulk select i, 0 from generate_series(1, 500) i`;

/** One statement, so one snapshot. The keyless table shows what came twice. */
export const stateSql = `
select (select n from place) as n, (select sum(balance)::text from account_a) || ' ' || (select sum(balance)::text from account_b)
  || ' ' || (select count(*) || ' ' || coalesce(sum(amount), 0) || ' ' || coalesce(max(n), 0) from move)
  || ' ' || (select count(*) || ' ' || sum(n) || ' ' || max(n) || ' ' || min(n) from bulk) as sums`;

export interface BankState {
  readonly n: number;
  readonly sums: string;
}

/** Every so many transactions, one is large. */
const largeEvery = 40;

function transaction(n: number): string {
  const amount = (n * 7) % 50;
  const transfer = `
    update account_a set balance = balance - ${amount} where id = ${n % 20};
    update account_b set balance = balance + ${amount}, memo = 'of ${n}' where id = ${(n * 3) % 20};
    insert into move values (${n}, ${amount});
    update place set n = ${n}`;
  if (n % largeEvery !== 0) return transfer;
  return `update bulk set n = ${n}; delete from bulk where id > 500;
    insert into bulk select i, ${n} from generate_series(501, ${700 + (n % 500)}) i; ${transfer}`;
}

export class Bank {
  /** What each commit came to, by its number. */
  readonly #states = new Map<number, string>();
  #last = 0;

  private constructor(private readonly client: Client) {}

  /** Makes the tables. The client is the bank's alone. */
  static async open(client: Client): Promise<Bank> {
    await client.query(tables);
    const bank = new Bank(client);
    await bank.#note();
    return bank;
  }

  /** The number of the last commit. */
  get last(): number {
    return this.#last;
  }

  /** One transaction after the other, until the signal. */
  async work(signal: AbortSignal, pauseMs: number): Promise<void> {
    while (!signal.aborted) {
      await this.client.query(`begin; ${transaction(this.#last + 1)}; commit`);
      await this.#note();
      await Bun.sleep(pauseMs);
    }
  }

  /** Throws unless the bank was in this state at one of its commits. */
  check({ n, sums }: BankState): void {
    const wanted = this.#states.get(n);
    // Seen by a reader before the bank has heard of its own commit.
    if (wanted === undefined && n === this.#last + 1) return;
    if (wanted !== sums)
      throw new Error(`never at a commit of the source: ${n}: ${sums}, then it was ${wanted}`);
  }

  async #note(): Promise<void> {
    const { rows } = await this.client.query<BankState>(stateSql);
    const [state] = rows as [BankState];
    this.#states.set(state.n, state.sums);
    this.#last = state.n;
  }
}
